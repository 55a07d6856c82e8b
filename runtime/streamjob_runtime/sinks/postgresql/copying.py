"""Copies a batch into a staging table: Spark forms CSV lines, and each task sends its own while computing them.

A task's lines are contiguous in Arrow's memory, so they are sent as they are. Python does no work per row, and only one
Arrow batch is held at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from streamjob.job.query.quoting import quoted
from streamjob_runtime.sinks.postgresql.column_types import Form, form_of
from streamjob_runtime.spark.text.text_forms import writer_options

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import Column, DataFrame

_RESULT = "task long, rows long, sqlstate string, error string"
_INSTANT = "yyyy-MM-dd HH:mm:ss.SSSSSSXXXXX"


@dataclass(frozen=True, slots=True)
class Copied:
    """The result of a task attempt: its number, the number of rows, and the server's error, if any."""

    task: int
    rows: int
    sqlstate: str | None = None
    error: str | None = None


def copy_batch(batch: DataFrame, conninfo: str, statement: str) -> list[Copied]:
    """Copy a batch in one Spark action; return the results of the attempts whose rows count.

    Args:
        batch: the rows.
        conninfo: connection settings for the tasks.
        statement: the COPY statement that receives the lines.
    """
    results = batch.select(csv_line(batch).alias("line")).mapInArrow(_sender(conninfo, statement), _RESULT).collect()
    return [Copied(row.task, row.rows, row.sqlstate, row.error) for row in results]


def csv_line(batch: DataFrame) -> Column:
    """Return the expression for a row's line: its position, then its columns in order."""
    from pyspark.sql import functions as f

    parts: list[Column] = [f.monotonically_increasing_id().cast("string")]
    for field in batch.schema.fields:
        column = batch[quoted(field.name)]
        parts += [f.lit(","), f.coalesce(_text(column, form_of(field.dataType.simpleString())), f.lit(""))]
    return f.concat(*parts, f.lit("\n"))


def _text(column: Column, form: Form) -> Column:
    """Return a value as a CSV field; null stays null, which becomes an empty field."""
    from pyspark.sql import functions as f

    match form:
        case Form.PLAIN:
            return column.cast("string")
        case Form.QUOTED:
            return _in_quotes(column)
        case Form.BYTES:
            return f.concat(f.lit("\\x"), f.hex(column))
        case Form.INSTANT:
            return f.date_format(column, _INSTANT)
        case Form.JSON:
            return _in_quotes(f.to_json(column, writer_options("json", {"ignoreNullFields": "false"})))


def _in_quotes(text: Column) -> Column:
    from pyspark.sql import functions as f

    return f.concat(f.lit('"'), f.replace(text, f.lit('"'), f.lit('""')), f.lit('"'))


def _sender(conninfo: str, statement: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def send(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        copied = send_lines(batches, context.taskAttemptId(), conninfo, statement)
        text = pyarrow.string()
        types = [("task", pyarrow.int64()), ("rows", pyarrow.int64()), ("sqlstate", text), ("error", text)]
        yield pyarrow.RecordBatch.from_pylist([asdict(copied)], schema=pyarrow.schema(types))

    return send


def send_lines(batches: Iterator[pyarrow.RecordBatch], task: int, conninfo: str, statement: str) -> Copied:
    """Send lines, if there are any, in one transaction."""
    import psycopg

    from streamjob_runtime.sinks.postgresql.sessions import connected, message_of
    from streamjob_runtime.sinks.postgresql.statements import TASK_SETTING

    rows = 0
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    if first is None:
        return Copied(task, 0)
    try:
        with ExitStack() as stack:
            connection = stack.enter_context(connected(conninfo))
            connection.execute("SELECT set_config(%s, %s, true)", (TASK_SETTING, str(task)))
            with connection.cursor().copy(statement.encode()) as copy:
                for batch in chain([first], filled):
                    copy.write(lines_of(batch))
                    rows += batch.num_rows
            connection.commit()
    except psycopg.Error as error:
        # Do not raise: Spark would retry the task, and wrap the server's message in two stack traces.
        return Copied(task, 0, error.sqlstate, message_of(error))
    return Copied(task, rows)


def lines_of(batch: pyarrow.RecordBatch) -> memoryview:
    """Return the texts of a batch's only column as one piece of memory, without copying."""
    import pyarrow

    (column,) = batch.columns
    width = 8 if pyarrow.types.is_large_string(column.type) else 4
    _, offsets, data = column.buffers()
    bounds = memoryview(offsets).cast("q" if width == 8 else "i")
    begin, end = bounds[column.offset], bounds[column.offset + len(column)]
    return memoryview(data)[begin:end] if data is not None else memoryview(b"")
