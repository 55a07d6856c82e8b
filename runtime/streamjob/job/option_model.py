"""Validates options by a pydantic model: names and values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from streamjob.job.suggest import did_you_mean

_Model = TypeVar("_Model", bound=BaseModel)


def option_names(model: type[BaseModel]) -> list[str]:
    """Return the names of a model's fields as they appear in files."""
    return [field.alias or name for name, field in model.model_fields.items()]


def problems_of(
    model: type[_Model],
    options: Mapping[str, str],
    advice: Mapping[str, str],
    further: Callable[[_Model], Iterable[tuple[str, str]]],
) -> Iterator[tuple[str, str]]:
    """Yield problems with options, with fixes; values are not shown.

    Args:
        model: the model of the options.
        options: by name.
        advice: the fix for an option that is missing or has an invalid value.
        further: yields further problems of options that are valid one by one.
    """
    try:
        parsed = model.model_validate(dict(options))
    except ValidationError as error:
        yield from _field_problems(model, error, advice)
    else:
        yield from further(parsed)


def _field_problems(
    model: type[BaseModel], error: ValidationError, advice: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    for each in error.errors(include_input=False, include_url=False):
        name = str(each["loc"][0])
        if each["type"] == "extra_forbidden":
            yield f"has no option {name!r}", did_you_mean(name, option_names(model), "options")
        elif each["type"] == "missing":
            yield f"lacks the option {name!r}", advice.get(name, f"add {name}")
        else:
            yield f"the option {name!r} cannot be used: {each['msg']}", advice.get(name, "see the reference")
