"""The Delta sink, at least once, with deltalake: Delta's own jars do not exist for each version of Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable, Schema, write_deltalake
from deltalake.exceptions import DeltaError, DeltaProtocolError, SchemaMismatchError, TableNotFoundError

from streamjob.errors import StreamJobError, refuse
from streamjob.ids import BatchId
from streamjob.job.delta import problems, storage_options
from streamjob.job.options import UnusableOptions, option, redacted, secrets_in
from streamjob.sink import SinkContext, Staged
from streamjob_runtime.sinks.batch import AtLeastOnceSink
from streamjob_runtime.sinks.column_mismatches import Mismatch, does_not_hold, given_twice, no_column
from streamjob_runtime.sinks.errors import UnusableTable
from streamjob_runtime.sinks.few_rows import few_of
from streamjob_runtime.sinks.row_chunks import FILE_BYTES, chunks, packed, unpacked
from streamjob_runtime.spark.quoting import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_RESULT = "count long, rows binary"
_WIDER: Mapping[str, frozenset[str]] = {
    "byte": frozenset({"short", "integer", "long"}),
    "short": frozenset({"integer", "long"}),
    "integer": frozenset({"long"}),
    "float": frozenset({"double"}),
}


class DeltaUnreachable(StreamJobError):
    """The table's files cannot be read or written; the job continues from its checkpoint once they can."""


class DeltaSink(AtLeastOnceSink):
    """Appends each batch to a table: one table version for each task with many rows, and one for the rest.

    Args:
        name: the sink's name, for messages.
        partition_by: columns that partition the table, if the sink creates it.
    """

    def __init__(self, name: str, partition_by: Sequence[str] = ()) -> None:
        self._label = f"sink {name}"
        self._partition_by = list(partition_by)

    def open(self, context: SinkContext) -> None:
        """Read the table's schema, if the table exists.

        Raises:
            UnusableOptions: an option is invalid.
            DeltaUnreachable: its files cannot be read.
            UnusableTable: deltalake does not support this kind of table.
        """
        super().open(context)
        refuse(UnusableOptions, f"{self._label}:", problems(context.options))
        self._storage = storage_options(context.options)
        self._path = option(context.options, "path") or ""
        self._columns = self._read_columns()

    def preview(self, context: SinkContext, schema: StructType | None) -> None:
        """Check the table and the rows without creating anything. Raises the errors of `open`."""
        self.open(context)
        if schema is not None and self._columns is not None:
            self.check_schema(schema)

    def rehearse(self, context: SinkContext, rows: DataFrame) -> None:
        """Check the table, and stage rows as for a batch. Without rows there is no version to write.

        Raises the errors of `preview` and `stage`.
        """
        self.preview(context, rows.schema)
        self.stage(rows, BatchId(0))

    def check_schema(self, schema: StructType) -> None:
        """Check that rows fit the table; create it if necessary.

        Raises:
            UnusableTable: they do not fit; lists all problems.
        """
        if self._columns is None:
            with self._explaining("cannot be made"):
                columns = json.loads(schema.json())
                for field in columns["fields"]:
                    field["nullable"] = True
                made = DeltaTable.create(
                    self._path,
                    Schema.from_json(json.dumps(columns)),
                    mode="ignore",
                    partition_by=self._partition_by or None,
                    storage_options=self._storage,
                )
                self._columns = _columns_of(made)
        refuse(UnusableTable, f"{self._label}: the table", _mismatches(schema, self._columns))

    def stage(self, batch: DataFrame, batch_id: BatchId) -> Staged:
        """Append the batch, in one Spark action.

        Raises:
            DeltaUnreachable, UnusableTable: see `open`.
        """
        results = self._widened(batch).mapInArrow(_writer(self._path, self._storage, few_of(batch)), _RESULT).collect()
        handed_over = unpacked(row.rows for row in results if row.rows is not None)
        if handed_over is not None:
            with self._explaining("cannot be written"):
                append(self._path, self._storage, handed_over)
        return Staged(None, sum(row["count"] for row in results))

    def _read_columns(self) -> dict[str, Any] | None:
        """Return the columns of the table; None if it does not exist."""
        with self._explaining("cannot be read"):
            try:
                return _columns_of(DeltaTable(self._path, storage_options=self._storage))
            except TableNotFoundError:
                return None

    def _widened(self, batch: DataFrame) -> DataFrame:
        table = self._columns or {}
        columns = []
        for field in batch.schema.fields:
            column = batch[quoted(field.name)]
            to = table.get(field.name)
            widened = to in _WIDER.get(str(field.jsonValue()["type"]), ()) if isinstance(to, str) else False
            columns.append(column.cast(str(to)).alias(field.name) if widened else column)
        return batch.select(*columns)

    @contextmanager
    def _explaining(self, what: str) -> Iterator[None]:
        """Translate deltalake's errors into the sink's, without secrets."""
        try:
            yield
        except (DeltaError, OSError, ValueError, pa.ArrowException) as error:
            text = redacted(" ".join(_COLOURS.sub("", str(error)).split()), secrets_in(self.context.options))
            message = f"{self._label}: the table {what}: {type(error).__name__}: {text[:300]}"
            if isinstance(error, DeltaProtocolError | SchemaMismatchError):
                raise UnusableTable(message, "name a table that deltalake can write and that fits") from None
            raise DeltaUnreachable(
                message, "see that path and storage.… are right, and the files can be reached"
            ) from None


def append(path: str, storage: Mapping[str, str], rows: pa.Table) -> None:
    """Append rows to a table, as one version."""
    write_deltalake(path, in_utc(rows), mode="append", storage_options=dict(storage))


def in_utc(rows: pa.Table) -> pa.Table:
    """Return rows with all timestamps labelled as UTC, which does not change their values."""
    return rows.cast(pa.schema([field.with_type(_type_in_utc(field.type)) for field in rows.schema]))


def _type_in_utc(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp("us", "UTC")
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_type_in_utc(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(
            kind.key_field.with_type(_type_in_utc(kind.key_type)),
            kind.item_field.with_type(_type_in_utc(kind.item_type)),
        )
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_type_in_utc(field.type)) for field in kind])
    return kind


def _columns_of(table: DeltaTable) -> dict[str, Any]:
    """Return a table's columns with their types in the form of Spark's JSON."""
    return {field["name"]: field["type"] for field in json.loads(table.schema().to_json())["fields"]}


def _mismatches(rows: StructType, table: Mapping[str, Any]) -> Iterator[Mismatch]:
    yield from given_twice(rows.names)
    for field in rows.fields:
        name = field.name
        if name not in table:
            yield no_column(name, table)
        elif not _fits(field.jsonValue()["type"], table[name]):
            shown = table[name] if isinstance(table[name], str) else table[name]["type"]
            yield does_not_hold(name, shown, field.dataType.simpleString())


def _fits(rows: Any, table: Any) -> bool:
    if isinstance(rows, str) and isinstance(table, str):
        return rows == table or table in _WIDER.get(rows, ())
    return bool(_bare(rows) == _bare(table))


def _bare(kind: Any) -> Any:
    """Return a type without details that do not affect its values."""
    if isinstance(kind, dict):
        left_out = {"nullable", "containsNull", "valueContainsNull", "metadata"}
        return {key: _bare(value) for key, value in kind.items() if key not in left_out}
    return [_bare(each) for each in kind] if isinstance(kind, list) else kind


def _writer(path: str, storage: Mapping[str, str], few: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        count, handed_over = 0, None
        for rows, are_few in chunks(batches, few, FILE_BYTES):
            count += rows.num_rows
            if are_few:
                handed_over = packed(rows)
            else:
                append(path, storage, rows)
        schema = pa.schema([("count", pa.int64()), ("rows", pa.binary())])
        yield pa.RecordBatch.from_pydict({"count": [count], "rows": [handed_over]}, schema=schema)

    return write
