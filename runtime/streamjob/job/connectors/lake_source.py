"""Lake tables as sources in a job file: their options and their checks. The table is asked when the job starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Literal

from pydantic import Field

from streamjob.durations import Seconds
from streamjob.job.connectors import delta, iceberg
from streamjob.job.connectors.connector import AsSource, OptionProblem
from streamjob.job.connectors.option_model import problems_of, refuse_options
from streamjob.job.model.spec_fields import Spec

NEWEST = "newest"
CHANGE_ROWS = "changeRows"
_WORDS = ("current", NEWEST, "oldest")
_ADVICE = {
    "table": "add table: namespace.table",
    "path": "add path: a directory, or s3://bucket/path",
    "startingSnapshot": "say current, newest, oldest, an id, or a time such as 2026-07-01T12:00:00Z",
    "onChange": "say fail, addedFiles or, for a Delta table, changeRows",
}


class LakeSourceOptions(Spec):
    """Options of a lake table that is read as the files of its snapshots."""

    starting_snapshot: str = Field(
        default="current",
        description="Where a job without state begins: `current`, with the table as it is; `newest`, with later "
        "snapshots only; `oldest`, with the table as it was at the oldest snapshot that is left; a snapshot's id or a "
        "version, with what it appended; `2026-07-01T12:00:00Z`, with the first snapshot of that time or later.",
    )
    on_change: Literal["fail", "addedFiles", "changeRows"] = Field(
        default="fail",
        description="What a snapshot that deletes or overwrites rows does: `fail`; `addedFiles`: the files that it "
        "adds are read, and what it deletes is ignored; `changeRows`, for a Delta table with a change data feed: each "
        "snapshot is read as changes, with `_change_type`, `_commit_version` and `_commit_timestamp`.",
    )
    check_interval: Seconds | None = Field(
        default=None,
        gt=0,
        description="How often the table is asked for new snapshots. Default: `5s` while they come, and up to `1m` "
        "while none comes.",
    )
    max_files_per_trigger: int | None = Field(default=None, gt=0, description="The most files of a batch.")
    max_bytes_per_trigger: int | None = Field(
        default=None, gt=0, description="The most bytes of a batch, beyond its first file; without a limit of files."
    )


class IcebergSourceOptions(iceberg.IcebergTableOptions, LakeSourceOptions):
    """Options of `format: iceberg` as a source; in addition `catalog.PROPERTY`, as for the sink."""


class DeltaSourceOptions(LakeSourceOptions):
    """Options of `format: delta` as a source; in addition `storage.NAME`, as for the sink."""

    path: str = Field(min_length=1, description="The table: a directory, or a URI such as `s3://bucket/path`.")


def parse_iceberg(options: Mapping[str, str], source: str) -> IcebergSourceOptions:
    """Return the validated options of a source; `source` names it in messages. Raises UnusableOptions."""
    refuse_options(f"{source}:", iceberg_problems(options))
    return IcebergSourceOptions.model_validate(iceberg.own(options, IcebergSourceOptions))


def parse_delta(options: Mapping[str, str], source: str) -> DeltaSourceOptions:
    """Return the validated options of a source; `source` names it in messages. Raises UnusableOptions."""
    refuse_options(f"{source}:", delta_problems(options))
    return DeltaSourceOptions.model_validate(delta.without_storage(options))


def iceberg_problems(options: Mapping[str, str]) -> Iterator[OptionProblem]:
    """Yield problems with a source's options, with fixes; values are not shown."""

    def further(parsed: IcebergSourceOptions) -> Iterator[OptionProblem]:
        yield from iceberg.table_problems(parsed, iceberg.catalog_properties(options))
        yield from _start_problems(parsed)
        if parsed.on_change == CHANGE_ROWS:
            what = "the option 'onChange' is changeRows, and the snapshots of an Iceberg table record no changed rows"
            yield OptionProblem(what, "say fail or addedFiles", "onChange")

    return problems_of(IcebergSourceOptions, iceberg.own(options, IcebergSourceOptions), _ADVICE, further)


def delta_problems(options: Mapping[str, str]) -> Iterator[OptionProblem]:
    """Yield problems with a source's options, with fixes; values are not shown."""
    return problems_of(DeltaSourceOptions, delta.without_storage(options), _ADVICE, _start_problems)


def start_of(text: str) -> str | int | datetime | None:
    """Return what `startingSnapshot` means: a word, an id or a time; None if it means nothing."""
    if text in _WORDS or (text.isascii() and text.isdigit()):
        return text if text in _WORDS else int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else None


def _start_problems(options: LakeSourceOptions) -> Iterator[OptionProblem]:
    if start_of(options.starting_snapshot) is None:
        what = "the option 'startingSnapshot' is neither a word for a snapshot, nor an id, nor a time with its zone"
        yield OptionProblem(what, _ADVICE["startingSnapshot"], "startingSnapshot")


SOURCES = {
    delta.FORMAT: AsSource(
        schema="refused", options=DeltaSourceOptions, problems=lambda source: delta_problems(source.options)
    ),
    iceberg.FORMAT: AsSource(
        schema="refused", options=IcebergSourceOptions, problems=lambda source: iceberg_problems(source.options)
    ),
}
"""Lake tables as sources, by their formats."""
