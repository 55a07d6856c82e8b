"""The data files of a batch, as the table would have them, in a directory of their own."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.conversions import to_bytes
from pyiceberg.io import FileIO, InputFile, OutputFile, OutputStream
from pyiceberg.io.pyarrow import PyArrowFileIO, pyarrow_to_schema, schema_to_pyarrow, write_file
from pyiceberg.partitioning import PartitionField, PartitionFieldValue, PartitionKey
from pyiceberg.schema import Schema
from pyiceberg.table import WriteTask
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.transforms import DayTransform, HourTransform, MonthTransform, YearTransform
from pyiceberg.types import DateType, PrimitiveType, TimestampType, TimestamptzType, TimeType

from streamjob_runtime.sinks.iceberg.catalogs import open_files
from streamjob_runtime.sinks.iceberg.datafiles import StagedFile, describe
from streamjob_runtime.sinks.lakes.staged_changes import with_values
from streamjob_runtime.sinks.lakes.values import holds_text, refuse_nulls, refuse_rows, refuse_unreadable, refused
from streamjob_runtime.sinks.rows.staged_hashes import HashingStream

_BEFORE_SURROGATES = "\ud7ff"
_COARSER = {DayTransform: "day", HourTransform: "hour", MonthTransform: "day", YearTransform: "day"}


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a task's writes.

    Args:
        sink: the sink's name in messages.
        metadata: the table's metadata as JSON; its data path is the batch's directory.
        properties: properties for access to the files.
    """

    sink: str
    metadata: str
    properties: tuple[tuple[str, str], ...]

    def table(self) -> TableMetadata:
        """Return the metadata."""
        return _parsed(self.metadata)

    def files(self) -> PyArrowFileIO:
        """Return access to the files."""
        return open_files(dict(self.properties))


@lru_cache(maxsize=8)
def _parsed(metadata: str) -> TableMetadata:
    return TableMetadataUtil.parse_raw(metadata)


def target_below(sink: str, metadata: TableMetadata, properties: dict[str, str], directory: str) -> Target:
    """Return the target of a batch: the table's layout, but in a separate directory."""
    own = {
        "write.data.path": directory,
        # A path with a partition's values would be longer than file systems allow.
        "write.object-storage.enabled": "true",
        "write.object-storage.partitioned-paths": "false",
        "write.format.default": "parquet",
    }
    kept = {name: value for name, value in metadata.properties.items() if name != "write.py-location-provider.impl"}
    bare = metadata.model_copy(
        update={
            "properties": {**kept, **own},
            "snapshots": [],
            "snapshot_log": [],
            "metadata_log": [],
            "refs": {},
            "current_snapshot_id": None,
            "statistics": [],
        }
    )
    return Target(sink, bare.model_dump_json(), tuple(sorted(properties.items())))


def data_path(metadata: TableMetadata) -> str:
    """Return the location of a table's data."""
    own = metadata.properties.get("write.data.path")
    return own.rstrip("/") if own else f"{metadata.location.rstrip('/')}/data"


class DataFiles:
    """Writes a batch's rows as data files, one for each of the table's partitions."""

    description = StagedFile

    def __init__(self, target: Target) -> None:
        self.files: list[StagedFile] = []
        self._target = target

    def write(self, rows: pa.Table) -> None:
        """Write rows. Raises RowsRefused if the table or its readers cannot hold a value."""
        check_rows(rows, self._target)
        self.files += write_rows(rows, self._target)

    def remove(self) -> None:
        """Remove the files."""
        for file in self.files:
            with suppress(OSError):
                self._target.files().delete(file.path)


def check_rows(rows: pa.Table, target: Target, left_out: pa.ChunkedArray | None = None) -> None:
    """Refuse values that the table or its readers cannot hold.

    Args:
        target: the table.
        left_out: the names of the columns that each row leaves out; None if no row does.

    Raises:
        RowsRefused: there is such a value.
    """
    required = [field.name for field in target.table().schema().fields if field.required]
    for name in required:
        fix = "give it a value in the job, or make the column optional"
        refuse_nulls(target.sink, with_values(rows, name, left_out), [name], "is required", fix)
    refuse_unreadable(target.sink, rows)
    for name in rows.column_names:
        refuse_rows(target.sink, rows, name, _lost_null, "replace the NULL in the job, by array() or map() for example")


def _lost_null(values: pa.Array) -> str | None:
    """Return the problem if there is a null that pyiceberg writes, and reads, as a list or map without entries."""
    kind, known = values.type, values.drop_null()
    if pa.types.is_struct(kind):
        return next((found for inner in known.flatten() if (found := _lost_null(inner))), None)
    if pa.types.is_map(kind):
        inner_kind, inner = kind.item_type, known.items
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inner_kind, inner = kind.value_type, known.flatten()
    else:
        return None
    if values.null_count and pa.types.is_struct(inner_kind):
        return "is an array or map of structs and has NULL, which pyiceberg stores as one without entries"
    return _lost_null(inner)


def write_rows(rows: pa.Table, target: Target) -> list[StagedFile]:
    """Write rows as data files, one for each of the table's partitions."""
    metadata, files = target.table(), target.files()
    schema, spec = metadata.schema(), metadata.spec()
    rows = as_the_table_has_them(rows, schema)
    if holds_text(rows, _BEFORE_SURROGATES):
        metadata = _without_bounds(metadata)
    file_schema = pyarrow_to_schema(rows.schema, name_mapping=schema.name_mapping)
    run, numbers, hashing = uuid.uuid4(), count(), _HashingFiles(files)
    tasks = [
        WriteTask(
            write_uuid=run,
            task_id=next(numbers),
            schema=file_schema,
            record_batches=part.combine_chunks().to_batches(),
            partition_key=key,
        )
        for key, part in split(rows, metadata, target.sink)
    ]
    written = list(write_file(hashing, metadata, iter(tasks)))
    return [describe(file, spec, schema, hashing.streams[file.file_path].sha256) for file in written]


class _HashingFiles(FileIO):
    """Access to files that keeps the hash of each file that it writes."""

    def __init__(self, files: PyArrowFileIO) -> None:
        super().__init__(files.properties)
        self._files = files
        self.streams: dict[str, HashingStream] = {}

    def new_input(self, location: str) -> InputFile:
        return self._files.new_input(location)

    def new_output(self, location: str) -> OutputFile:
        return _HashedFile(self._files.new_output(location), self.streams)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self._files.delete(location)


class _HashedFile(OutputFile):
    def __init__(self, file: OutputFile, streams: dict[str, HashingStream]) -> None:
        super().__init__(file.location)
        self._file = file
        self._streams = streams

    def __len__(self) -> int:
        return len(self._file)

    def exists(self) -> bool:
        return self._file.exists()

    def to_input_file(self) -> InputFile:
        return self._file.to_input_file()

    def create(self, overwrite: bool = False) -> OutputStream:
        stream = HashingStream(cast("BinaryIO", self._file.create(overwrite)))
        self._streams[self.location] = stream
        return cast("OutputStream", stream)


def as_the_table_has_them(rows: pa.Table, schema: Schema) -> pa.Table:
    """Return rows with the types of the table's columns: timestamps in UTC, UUIDs."""
    fields, columns = [], []
    for field in schema_to_pyarrow(schema.select(*rows.column_names), include_field_ids=False):
        column = rows.column(field.name)
        if isinstance(field.type, pa.UuidType):
            column = column.cast(pa.binary(16))
        fields.append(field)
        columns.append(column.cast(field.type))
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _without_bounds(metadata: TableMetadata) -> TableMetadata:
    """Return a table's metadata for files that have counts and no bounds.

    pyiceberg makes the upper bound of a text from its first characters by raising the last one, and raises the one
    before the surrogates to a surrogate, which no text can hold.
    """
    kept = {
        name: value for name, value in metadata.properties.items() if not name.startswith("write.metadata.metrics.")
    }
    return metadata.model_copy(update={"properties": {**kept, "write.metadata.metrics.default": "counts"}})


def split(rows: pa.Table, metadata: TableMetadata, sink: str) -> Iterator[tuple[PartitionKey | None, pa.Table]]:
    """Yield the rows of each partition with its key; if the table has no partitions, yield all rows without one.

    Raises:
        RowsRefused: a transform gives a value that its type cannot hold.
    """
    spec, schema = metadata.spec(), metadata.schema()
    if spec.is_unpartitioned():
        yield None, rows
        return
    values: list[list[Any]] = []
    numbered = pa.table({"row": pa.array(range(rows.num_rows), pa.int64())})
    for position, field in enumerate(spec.fields):
        known, numbers = _transformed(rows, field, schema)
        _check_values(known, numbers, field, schema, rows, sink)
        values.append(known)
        numbered = numbered.append_column(f"p{position}", numbers)
    names = [f"p{position}" for position in range(len(spec.fields))]
    for group in numbered.group_by(names).aggregate([("row", "list")]).to_pylist():
        key = PartitionKey(
            [
                PartitionFieldValue(field, known[group[name]])
                for field, known, name in zip(spec.fields, values, names, strict=True)
            ],
            spec,
            schema,
        )
        yield key, rows.take(pa.array(sorted(group["row_list"]), pa.int64()))


def _check_values(
    known: list[Any], numbers: pa.Array, field: PartitionField, schema: Schema, rows: pa.Table, sink: str
) -> None:
    """Refuse rows whose partition value cannot be stored: truncating the least number of a type gives a lesser one."""
    kind = field.transform.result_type(schema.find_type(field.source_id))
    assert isinstance(kind, PrimitiveType), f"partition field {field.name} is of no primitive type"
    for place, value in enumerate(known):
        try:
            if value is not None:
                to_bytes(kind, value)
        except (ValueError, OverflowError, struct.error) as error:
            number = pc.index(numbers, place).as_py()
            what = f"has a value for which the partition {field.transform} cannot be stored"
            fix = "correct the value in the job, or partition the table in another way"
            name = schema.find_column_name(field.source_id) or ""
            raise refused(sink, rows, name, what, number, fix) from error


def _transformed(rows: pa.Table, field: PartitionField, schema: Schema) -> tuple[list[Any], pa.Array]:
    """Return the distinct partition values, and each row's index among them.

    pyiceberg transforms whole columns only with a native extension of its own; for the few distinct values it needs
    none.
    """
    kind = schema.find_type(field.source_id)
    name = schema.find_column_name(field.source_id) or ""
    outer, *inner = [name] if name in rows.column_names else name.split(".")
    if outer not in rows.column_names:
        return [None], pa.array([0] * rows.num_rows, pa.int64())
    column = rows.column(outer).combine_chunks()
    if inner:
        column = pc.struct_field(column, inner)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(kind, TimestampType | TimestamptzType) and (unit := _COARSER.get(type(field.transform))):
        column = pc.floor_temporal(column, unit=unit)
    if isinstance(kind, DateType):
        column = column.cast(pa.int32())
    elif isinstance(kind, TimestampType | TimestamptzType | TimeType):
        column = column.cast(pa.int64())
    elif isinstance(column, pa.ExtensionArray):
        column = column.storage
    encoded = column.dictionary_encode(null_encoding="encode")
    transform = field.transform.transform(kind)
    known: dict[Any, int] = {}
    places = [known.setdefault(transform(value), len(known)) for value in encoded.dictionary.to_pylist()]
    return list(known), pa.array(places, pa.int64()).take(encoded.indices)
