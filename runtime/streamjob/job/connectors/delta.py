"""The Delta sink in a job file: its options and their checks. The table is asked when the job starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from pydantic import Field

from streamjob.job.connectors.connector import BOTH_DELIVERIES, AsSink, AsTable, Connector, OptionProblem
from streamjob.job.connectors.option_model import (
    MODES,
    MODES_FIX,
    ColumnNames,
    key_problems,
    problems_of,
    refuse_options,
)
from streamjob.job.model.spec_fields import Spec

FORMAT = "delta"

_STORAGE = "storage."
_UNSAFE = frozenset({"allow_unsafe_rename", "aws_s3_allow_unsafe_rename", "mount_allow_unsafe_rename"})


class DeltaOptions(Spec):
    """Options of `format: delta`: the table and the way of writing to it.

    In addition, `storage.NAME` is one of deltalake's storage options, such as `storage.AWS_REGION`.
    """

    path: str = Field(min_length=1, description="The table: a directory, or a URI such as `s3://bucket/path`.")
    mode: Literal["append", "upsert", "replace"] = Field(default="append", description=MODES)
    key: ColumnNames = Field(
        default=(), description="For `upsert`: the columns that identify a row, separated by commas."
    )


def parse_options(options: Mapping[str, str], sink: str = "the sink") -> DeltaOptions:
    """Return the validated options of a sink; `sink` names it in messages. Raises UnusableOptions."""
    refuse_options(f"{sink}:", problems(options))
    return DeltaOptions.model_validate(without_storage(options))


def problems(options: Mapping[str, str]) -> Iterator[OptionProblem]:
    """Yield problems with a sink's options, with fixes; values are not shown."""
    yield from problems_of(DeltaOptions, without_storage(options), _ADVICE, _further_problems)
    for name in storage_options(options):
        if name.lower() in _UNSAFE:
            what = f"has the option '{_STORAGE}{name}', with which two commits can overwrite each other"
            yield OptionProblem(what, "leave it out, and use a store with conditional writes")


def delivery_problems(options: Mapping[str, str], delivery: str) -> Iterator[OptionProblem]:
    """Yield problems with a sink's options and delivery, with fixes."""
    yield from problems(options)
    if delivery != "exactly-once" and (mode := options.get("mode")) in ("upsert", "replace"):
        yield OptionProblem(
            f"has mode: {mode}, which replaces rows once a checkpoint has completed", "leave delivery out"
        )


def storage_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options for access to the table's files."""
    return {name.removeprefix(_STORAGE): value for name, value in options.items() if name.startswith(_STORAGE)}


def without_storage(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options that are not deltalake's; Spark's users write `Path` in any case."""
    return {
        "path" if name.lower() == "path" else name: value
        for name, value in options.items()
        if not name.startswith(_STORAGE)
    }


_ADVICE = {"path": "add path: a directory, or s3://bucket/path", "mode": MODES_FIX}


def _further_problems(options: DeltaOptions) -> Iterator[OptionProblem]:
    yield from key_problems(options.mode, options.key, "name the columns that identify a row: key: id")


CONNECTOR = Connector(
    name=FORMAT,
    table=AsTable(),
    sink=AsSink(
        deliveries=BOTH_DELIVERIES,
        upserts=True,
        replaces=True,
        batches=True,
        partitions=True,
        extra=FORMAT,
        options=DeltaOptions,
        problems=lambda sink: delivery_problems(sink.options, sink.delivery),
    ),
    path="table",
)
