"""Data files as JSON: the form in which tasks report them and committables store them.

Bounds and partition values use Iceberg's binary single-value serialisation (appendix D of the specification), in
base64.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict
from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import PrimitiveType


class StagedFile(BaseModel):
    """A Parquet file with rows: its location, and its entry for the table's manifest.

    Args:
        path: its location.
        size: its size in bytes.
        rows: the number of rows.
        partition: the values of the partition fields.
        columnSizes, values, nulls, nans: counts by column id.
        lower, upper: bounds by column id.
        splits: offsets of its row groups.
        sha256: of its content, in hexadecimal; None in what older versions staged.
    """

    model_config = ConfigDict(frozen=True)

    path: str
    size: int
    rows: int
    partition: tuple[str | None, ...] = ()
    columnSizes: dict[int, int] = {}  # noqa: N815 - as it is stored
    values: dict[int, int] = {}
    nulls: dict[int, int] = {}
    nans: dict[int, int] = {}
    lower: dict[int, str] = {}
    upper: dict[int, str] = {}
    splits: tuple[int, ...] = ()
    sha256: str | None = None


def describe(file: DataFile, spec: PartitionSpec, schema: Schema, sha256: str) -> StagedFile:
    """Return the description of a data file, written with a partition specification and schema of the table."""
    values = [
        None if value is None else _text(to_bytes(kind, value))
        for kind, value in zip(_kinds(spec, schema), [file.partition[n] for n in range(len(spec.fields))], strict=True)
    ]
    return StagedFile(
        path=file.file_path,
        size=file.file_size_in_bytes,
        rows=file.record_count,
        partition=tuple(values),
        columnSizes=file.column_sizes or {},
        values=file.value_counts or {},
        nulls=file.null_value_counts or {},
        nans=file.nan_value_counts or {},
        lower=_texts(file.lower_bounds),
        upper=_texts(file.upper_bounds),
        splits=tuple(file.split_offsets or ()),
        sha256=sha256,
    )


def restore(staged: StagedFile, spec: PartitionSpec, schema: Schema) -> DataFile:
    """Return the data file of a description."""
    kinds = _kinds(spec, schema)
    values: list[Any] = [
        None if value is None else from_bytes(kind, b64decode(value))
        for kind, value in zip(kinds, staged.partition, strict=True)
    ]
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=staged.path,
        file_format=FileFormat.PARQUET,
        partition=Record(*values),
        record_count=staged.rows,
        file_size_in_bytes=staged.size,
        column_sizes=staged.columnSizes,
        value_counts=staged.values,
        null_value_counts=staged.nulls,
        nan_value_counts=staged.nans,
        lower_bounds=_bytes(staged.lower),
        upper_bounds=_bytes(staged.upper),
        key_metadata=None,
        split_offsets=list(staged.splits),
        equality_ids=None,
        sort_order_id=None,
    )
    file.spec_id = spec.spec_id
    return file


def _kinds(spec: PartitionSpec, schema: Schema) -> list[PrimitiveType]:
    kinds = []
    for field in spec.partition_type(schema).fields:
        assert isinstance(field.field_type, PrimitiveType), f"partition field {field.name} is of no primitive type"
        kinds.append(field.field_type)
    return kinds


def _text(value: bytes) -> str:
    return b64encode(value).decode()


def _texts(bounds: Mapping[int, bytes] | None) -> dict[int, str]:
    return {column: _text(value) for column, value in (bounds or {}).items()}


def _bytes(bounds: Mapping[int, str]) -> dict[int, bytes]:
    return {column: b64decode(value) for column, value in bounds.items()}
