"""Reads state and in-flight data into tables: downloads the files that are needed, and queries an embedded Spark."""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from streamjob.errors import InvalidInput
from streamjob.snapshot.manifest import ChainState, ChannelSegment, FileRef, Manifest
from streamjob.store.effects import Locate
from streamjob.store.opening import References
from streamjob.stored.state_stores import StateUnreadable
from streamjob.stored.state_tables import StateTable, TablesRequest
from streamjob_runtime.inspection import segment_rows
from streamjob_runtime.inspection.state_views import View, views_of
from streamjob_runtime.restoring.download import download
from streamjob_runtime.spark.checkpoint_dir.relocate import relocate
from streamjob_runtime.spark.gateway import spark_errors
from streamjob_runtime.spark.holder import SparkHolder
from streamjob_runtime.spark.session import SessionSettings
from streamjob_runtime.spark.text.error_text import reason
from streamjob_runtime.spark.text.json_values import exact_number
from streamjob_runtime.spark.text.text_forms import writer_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_SLOTS = 4
IN_FLIGHT = "in_flight"
"""The view with a channel's in-flight data."""


class UnusableQuery(InvalidInput):
    """Spark cannot run the query over the requested tables."""


def read_tables(request: TablesRequest, spark: SparkSession | None = None) -> Iterator[StateTable]:
    """Yield the tables of a request. Local files are in a scratch directory that is removed at the end.

    Args:
        spark: a session to use; None to start one if needed.

    Raises:
        SnapshotFileMissing, SnapshotFileCorrupt: the snapshot is damaged.
        StateUnreadable: Spark cannot read the state.
        UnusableQuery: Spark cannot run the query.
        NoJava: no suitable Java was found.
        StoreError: the store failed.
    """
    manifest = request.snapshot.manifest
    if manifest is None:
        raise StateUnreadable(request.snapshot.problem or f"{request.snapshot.uri} cannot be read")
    home = request.snapshot.home.store()
    references = References(home)
    try:
        with tempfile.TemporaryDirectory(prefix="streamjob-inspect-") as scratch:
            yield from _read(request, manifest, references.find, Path(scratch), spark)
    finally:
        references.close()
        home.close()


def _read(
    request: TablesRequest, manifest: Manifest, locate: Locate, scratch: Path, given: SparkSession | None
) -> Iterator[StateTable]:
    views = views_of(request.operators)
    files = {scratch / "chains" / chain.uid: _files(request, chain) for chain in manifest.chains}
    segments = _segments(request)
    files[scratch / "segments"] = [each.model_copy(update={"path": each.path.rpartition("/")[2]}) for each in segments]
    with _session(given, scratch, needed=bool(views) or request.sql is not None) as session:
        _fetch({target: refs for target, refs in files.items() if refs}, locate, request)
        if session is None:
            rows = segment_rows.read_rows(scratch / "segments", segments, request.limit + 1)
            yield _in_flight_table(request, segment_rows.columns(scratch / "segments", segments), rows)
            return
        request.progress("starting Spark", 0, 0)
        spark = session()
        assert spark is not None
        request.progress("reading", 0, 0)
        frames = [(view, _frame(spark, view, manifest, scratch)) for view in views if request.sql or not view.internal]
        if request.sql is not None:
            yield _query(spark, request, frames, scratch / "segments", segments)
            return
        for view, frame in frames:
            try:
                yield _table(frame, view.name, view.title, request.limit)
            except Exception as error:
                raise _unreadable(view.title, error) from error
        if request.channel is not None:
            rows = segment_rows.read_rows(scratch / "segments", segments, request.limit + 1)
            yield _in_flight_table(request, segment_rows.columns(scratch / "segments", segments), rows)


def _files(request: TablesRequest, chain: ChainState) -> list[FileRef]:
    """Return the files that Spark needs to read the state of the requested operators of a chain."""
    wanted = tuple(f"state/{operator.id}/" for operator in request.operators if operator.chain == chain.uid)
    if not wanted:
        return []
    return [
        file for file in chain.files if file.path.startswith(wanted) or not file.path.startswith(("state/", "sources/"))
    ]


def _segments(request: TablesRequest) -> tuple[ChannelSegment, ...]:
    entries = () if request.channel is None else request.channel.entries
    return tuple(segment for entry in entries for segment in entry.segments)


def _fetch(files: Mapping[Path, Sequence[FileRef]], locate: Locate, request: TablesRequest) -> None:
    total = sum(file.length for refs in files.values() for file in refs)
    done, lock = 0, threading.Lock()

    def note(size: int) -> None:
        nonlocal done
        with lock:
            done += size
            request.progress("fetching", done, total)

    request.progress("fetching", 0, total)
    for target, refs in files.items():
        download(refs, locate, target, progress=note)
        relocate(target, f"file:{target}")


@contextmanager
def _session(
    given: SparkSession | None, scratch: Path, *, needed: bool
) -> Iterator[Callable[[], SparkSession | None] | None]:
    """Yield a function that returns the session, which starts in the background; None if no session is needed."""
    if not needed or given is not None:
        yield (lambda: given) if needed else None
        return
    slots = min(_SLOTS, os.cpu_count() or 1)
    holder = SparkHolder(SessionSettings("inspect", slots, slots, scratch), scratch / "spark.log")
    starter = threading.Thread(target=holder.start_early, name="start-spark", daemon=True)
    starter.start()
    try:
        yield lambda: holder.session(slots)
    finally:
        starter.join()
        holder.stop()


def _frame(spark: SparkSession, view: View, manifest: Manifest, scratch: Path) -> DataFrame:
    (chain,) = (each for each in manifest.chains if each.uid == view.chain)
    reader = spark.read.format("statestore").option("batchId", chain.batch).option("operatorId", view.operator.id)
    try:
        frame = reader.options(**dict(view.options)).load(str(scratch / "chains" / view.chain))
    except Exception as error:
        raise _unreadable(view.title, error) from error
    return _with_declared_fields(frame) if view.is_side_of_join else frame


def _with_declared_fields(frame: DataFrame) -> DataFrame:
    """Return the rows of one side of a join without the extra field that their schema lacks.

    Spark stores after each row whether it has found a partner; code that handles rows as a whole fails on it.
    """
    from pyspark.sql.functions import struct

    names = cast("StructType", frame.schema["value"].dataType).names
    return frame.withColumn("value", struct(*(frame["value"].getField(name).alias(name) for name in names)))


def _query(
    spark: SparkSession,
    request: TablesRequest,
    frames: Sequence[tuple[View, DataFrame]],
    folder: Path,
    segments: Sequence[ChannelSegment],
) -> StateTable:
    names = [view.name for view, _ in frames]
    for view, frame in frames:
        frame.createOrReplaceTempView(view.name)
    if segments:
        spark.createDataFrame(segment_rows.read_table(folder, segments)).createOrReplaceTempView(IN_FLIGHT)
        names.append(IN_FLIGHT)
    assert request.sql is not None
    try:
        return _table(spark.sql(request.sql), None, request.sql, request.limit)
    except spark_errors() as error:
        raise UnusableQuery(
            f"Spark cannot run the query {request.sql!r}: {_first_line(error)}",
            f"the views are {', '.join(names)}" if names else "there is nothing to query: no data is in flight",
        ) from error


def _table(frame: DataFrame, view: str | None, title: str, limit: int) -> StateTable:
    from pyspark.sql.functions import struct, to_json

    # Several columns of a query may share a name.
    named = frame.toDF(*(f"c{index}" for index in range(len(frame.columns))))
    options = writer_options("json", {"ignoreNullFields": "false"})
    texts = named.select(to_json(struct("*"), options)).limit(limit + 1).collect()
    columns = tuple(_columns(frame.schema))
    rows = []
    for (text,) in texts[:limit]:
        value = json.loads(text, parse_float=exact_number)
        rows.append({name: value[f"c{index}"] for index, name in enumerate(frame.columns)})
    return StateTable(view=view, title=title, columns=columns, rows=tuple(rows), more=len(texts) > limit)


def _columns(schema: StructType, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the columns, with structs flattened; omit void columns, with which Spark pads empty values."""
    for field in schema.fields:
        path = (*above, field.name)
        if field.dataType.typeName() == "struct":
            yield from _columns(cast("StructType", field.dataType), path)
        elif field.dataType.typeName() != "void":
            yield path


def _in_flight_table(request: TablesRequest, columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> StateTable:
    assert request.channel is not None
    return StateTable(
        view=IN_FLIGHT,
        title=f"in flight from {request.channel.source} to {request.channel.target}",
        columns=tuple((name,) for name in columns),
        rows=tuple(rows[: request.limit]),
        more=len(rows) > request.limit,
    )


def _unreadable(what: str, error: Exception) -> StateUnreadable:
    return StateUnreadable(f"Spark cannot read the state ({what}): {_first_line(error)}")


def _first_line(error: Exception) -> str:
    return reason(error).partition("\n")[0]
