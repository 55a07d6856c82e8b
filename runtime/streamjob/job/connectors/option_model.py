"""Validates options by a pydantic model: names and values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ValidationError

from streamjob.errors import refuse
from streamjob.job.connectors.connector import OptionProblem
from streamjob.job.connectors.options import UnusableOptions
from streamjob.job.model.suggest import did_you_mean


def _names(value: Any) -> Any:
    if isinstance(value, str):
        return [name.strip() for name in value.split(",") if name.strip()]
    return value


ColumnNames = Annotated[tuple[str, ...], BeforeValidator(_names, json_schema_input_type=str)]
"""Names of columns, separated by commas in files."""

MODES = (
    "`append` adds each row; `upsert` replaces the row with the same `key`, and the last one wins; `replace` replaces "
    "all rows of the table by the newest result of an operator with `outputMode: complete`."
)
"""The description of the option `mode` of tables."""
MODES_FIX = "say mode: append, mode: upsert or mode: replace"

_Model = TypeVar("_Model", bound=BaseModel)


def option_names(model: type[BaseModel]) -> list[str]:
    """Return the names of a model's fields as they appear in files."""
    return [field.alias or name for name, field in model.model_fields.items()]


def problems_of(
    model: type[_Model],
    options: Mapping[str, str],
    advice: Mapping[str, str],
    further: Callable[[_Model], Iterable[OptionProblem]],
) -> Iterator[OptionProblem]:
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


def refuse_options(whom: str, found: Iterable[OptionProblem]) -> None:
    """Raise one error that lists all problems; do nothing if there are none.

    Args:
        whom: the part that has the options; the message begins with it.

    Raises:
        UnusableOptions: there is a problem.
    """
    refuse(UnusableOptions, whom, ((each.what, each.fix) for each in found))


def key_problems(mode: str, key: Sequence[str], naming: str) -> Iterator[OptionProblem]:
    """Yield problems with the mode and the key of a sink, with fixes.

    Args:
        mode: `upsert`, or one that has no use for a key.
        key: the columns of the key.
        naming: how to name a key.
    """
    if mode == "upsert" and not key:
        yield OptionProblem("has mode upsert and no key", naming)
    if mode != "upsert" and key:
        yield OptionProblem(
            f"has a key, and mode {mode}, which has no use for one", "say mode: upsert, or leave key out"
        )
    if len(set(key)) < len(key):
        yield OptionProblem("names a column twice in key", "name each column once")


def _field_problems(
    model: type[BaseModel], error: ValidationError, advice: Mapping[str, str]
) -> Iterator[OptionProblem]:
    for each in error.errors(include_input=False, include_url=False):
        name = str(each["loc"][0])
        if each["type"] == "extra_forbidden":
            yield OptionProblem(f"has no option {name!r}", did_you_mean(name, option_names(model), "options"))
        elif each["type"] == "missing":
            yield OptionProblem(f"lacks the option {name!r}", advice.get(name, f"add {name}"))
        else:
            yield OptionProblem(
                f"the option {name!r} cannot be used: {each['msg']}", advice.get(name, "see the reference"), name
            )
