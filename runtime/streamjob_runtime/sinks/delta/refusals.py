"""Decides which Delta tables the sink can write to, by their protocol, properties and columns; pure.

A writer must honour each feature of a table. The sink adds files that it has written itself, so it refuses a table with
a feature that would have to change their rows or their description.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from streamjob_runtime.sinks.rows.column_mismatches import Mismatch

_NEWEST_WRITER = 7
_HARMLESS = frozenset({"appendOnly", "changeDataFeed", "deletionVectors", "timestampNtz", "v2Checkpoint"})
"""Features that ask nothing of a writer that only adds files."""
_ONLY_IF_USED = frozenset({"checkConstraints", "columnMapping", "generatedColumns", "invariants"})
"""Features that ask something only if a property or a column uses them."""
_COLUMNS = {
    "delta.invariants": "an invariant",
    "delta.generationExpression": "a generated value",
    "delta.identity.start": "an identity",
    "CURRENT_DEFAULT": "a default value",
}
"""Metadata of columns that a writer has to honour."""
_CONSTRAINT = "delta.constraints."
_RETENTION = "delta.setTransactionRetentionDuration"


@dataclass(frozen=True, slots=True)
class TableTraits:
    """What a table asks of its writers.

    Args:
        writer_version: the protocol's version for writers.
        features: the features that the protocol names.
        fields: the columns in the form of Spark's JSON.
        partition_by: the columns that partition the table.
    """

    writer_version: int
    features: Collection[str]
    properties: Mapping[str, str]
    fields: Collection[Mapping[str, Any]]
    partition_by: Collection[str]


def refusals(table: TableTraits, *, replaces: bool) -> Iterator[Mismatch]:
    """Yield the reasons why the sink cannot write to a table at all.

    Args:
        replaces: whether the sink replaces rows.
    """
    if table.writer_version > _NEWEST_WRITER:
        yield Mismatch(f"has writer version {table.writer_version}", f"use a table of version {_NEWEST_WRITER} or less")
    for feature in sorted(set(table.features) - _HARMLESS - _ONLY_IF_USED):
        what = f"has the table feature {feature!r}, which the sink does not support"
        yield Mismatch(what, "drop the feature, or write to another table")
    if table.properties.get("delta.columnMapping.mode", "none") != "none":
        yield Mismatch("maps its columns to other names (delta.columnMapping.mode)", "use a table without it")
    for name in sorted(table.properties):
        if name.startswith(_CONSTRAINT):
            what = f"has the check constraint {name.removeprefix(_CONSTRAINT)!r}, which the sink does not evaluate"
            yield Mismatch(what, "drop it, and check the rows in the job")
    if _RETENTION in table.properties:
        what = f"forgets application transactions after a time ({_RETENTION}), and with them which rows are committed"
        yield Mismatch(what, "unset the property")
    for field in table.fields:
        for path, metadata in _metadata(field["name"], field):
            for name in sorted(metadata.keys() & _COLUMNS):
                what = f"has column {path!r} with {_COLUMNS[name]} ({name}), which the sink does not compute or check"
                yield Mismatch(what, "drop it from the column, and compute or check the value in the job")
    kinds = {field["name"]: field["type"] for field in table.fields}
    for name in table.partition_by:
        if kinds.get(name) == "binary":
            yield Mismatch(f"is partitioned by {name!r}, of type binary", "partition by another column")
    if replaces:
        yield from _refusals_of_replacing(table)


def _refusals_of_replacing(table: TableTraits) -> Iterator[Mismatch]:
    for name, what in (
        ("delta.appendOnly", "takes new rows only"),
        ("delta.enableDeletionVectors", "marks deleted rows in deletion vectors, which deltalake does not write"),
    ):
        if table.properties.get(name, "").lower() == "true":
            yield Mismatch(f"{what} ({name})", "unset the property, or say mode: append")


def _metadata(path: str, field: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the metadata of a column and of the fields inside it."""
    yield path, field.get("metadata") or {}
    yield from _inside(path, field["type"])


def _inside(path: str, kind: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if not isinstance(kind, dict):
        return
    for field in kind.get("fields", ()):
        yield from _metadata(f"{path}.{field['name']}", field)
    for part in ("elementType", "keyType", "valueType"):
        yield from _inside(path, kind.get(part))


def traits_of(protocol: Any, metadata: Any, schema: str) -> TableTraits:
    """Return the traits of a table.

    Args:
        protocol: deltalake's description of the table's protocol.
        metadata: deltalake's description of its properties and partitions.
        schema: the schema as JSON.
    """
    return TableTraits(
        protocol.min_writer_version,
        {*(protocol.writer_features or ()), *(protocol.reader_features or ())},
        dict(metadata.configuration),
        json.loads(schema)["fields"],
        tuple(metadata.partition_columns),
    )
