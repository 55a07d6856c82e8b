"""Registers the Python functions that a job's SQL calls."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from streamjob.errors import InvalidInput
from streamjob.job.loading.load import LoadedJob

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TYPES: dict[Any, str] = {
    bool: "boolean",
    bytes: "binary",
    date: "date",
    datetime: "timestamp",
    Decimal: "decimal(38,18)",
    float: "double",
    int: "bigint",
    str: "string",
    timedelta: "interval day to second",
}


class UnusableFunction(InvalidInput):
    """A function of the job cannot be called from SQL; nothing was started."""


def register_functions(spark: SparkSession, job: LoadedJob) -> None:
    """Register the job's functions, for SQL in the session.

    Raises:
        UnusableFunction: a function has a name of Spark's own, or no type.
        InvalidJob: a function cannot be imported.
    """
    for _, error in refused_functions(spark, job):
        raise error


def refused_functions(spark: SparkSession, job: LoadedJob) -> Iterator[tuple[str, InvalidInput]]:
    """Register the job's functions; yield each name that cannot be, with an UnusableFunction or InvalidJob."""
    if not job.spec.functions:
        return
    # Spark looks for its own functions first: the job's would never be called.
    own = {name for (name,) in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    for name in job.spec.functions:
        try:
            if name.lower() in own:
                raise UnusableFunction(f"Function {name!r} is one of Spark's own", "give it another name")
            _register(spark, name, job.function(name))
        except InvalidInput as error:
            yield name, error


def _register(spark: SparkSession, name: str, function: Callable[..., Any]) -> None:
    from pyspark.errors import PySparkException

    # A function that `udf` or `pandas_udf` has made has its type.
    declared = None if hasattr(function, "asNondeterministic") else _type_of(name, function)
    try:
        spark.udf.register(name, function, declared)
    except PySparkException as error:
        raise UnusableFunction(f"Function {name!r}: {error}", "declare it with a type of Spark") from error


def _type_of(name: str, function: Callable[..., Any]) -> str:
    try:
        hint = typing.get_type_hints(function).get("return")
    except (NameError, TypeError):
        hint = None
    found = _sql_type(hint)
    if found is None:
        what = "has no type of what it returns" if hint is None else f"returns {hint}, which has no type in SQL"
        raise UnusableFunction(
            f"Function {name!r} {what}",
            'decorate it with @udf("bigint"), or another type of Spark; plain types as hints do, too: -> int',
        )
    return found


def _sql_type(hint: Any) -> str | None:
    """Return Spark's type for a type hint; None if there is none."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        some = [each for each in arguments if each is not type(None)]
        return _sql_type(some[0]) if len(some) == 1 else None
    inner = [_sql_type(each) for each in arguments]
    if origin is list and inner[0] is not None:
        return f"array<{inner[0]}>"
    if origin is dict and None not in inner:
        return f"map<{inner[0]},{inner[1]}>"
    return _TYPES.get(hint) if origin is None else None
