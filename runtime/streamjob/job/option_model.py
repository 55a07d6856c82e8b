"""Options that are the fields of a model: their names, and what is wrong with values that do not fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import BaseModel, ValidationError

from streamjob.job.suggest import did_you_mean


def option_names(model: type[BaseModel]) -> list[str]:
    """Return the names of a model's fields, as a file has them."""
    return [field.alias or name for name, field in model.model_fields.items()]


def field_problems(
    model: type[BaseModel], error: ValidationError, advice: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield what keeps options from becoming a model, with the fix; no value is shown.

    Args:
        model: the model.
        error: what it raised.
        advice: the fix for an option that is missing, or cannot have its value.
    """
    for each in error.errors(include_input=False, include_url=False):
        name = str(each["loc"][0])
        if each["type"] == "extra_forbidden":
            yield f"has no option {name!r}", did_you_mean(name, option_names(model), "options")
        elif each["type"] == "missing":
            yield f"lacks the option {name!r}", advice.get(name, f"add {name}")
        else:
            yield f"the option {name!r} cannot be used: {each['msg']}", advice.get(name, "see the reference")
