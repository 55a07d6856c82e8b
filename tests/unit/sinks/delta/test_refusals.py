"""Tables of Delta that the sink cannot write to are told by the feature that stands against it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from streamjob_runtime.sinks.delta.refusals import TableTraits, refusals

PLAIN = TableTraits(2, (), {}, [{"name": "id", "type": "long", "metadata": {}}], ())


def column(name: str, value: object = "x") -> list[dict[str, Any]]:
    inner = {"name": "b", "type": "long", "metadata": {name: value}}
    return [
        {"name": "a", "type": {"type": "array", "elementType": {"type": "struct", "fields": [inner]}}, "metadata": {}}
    ]


REFUSED: Mapping[str, tuple[dict[str, Any], str]] = {
    "newer": ({"writer_version": 8}, "has writer version 8"),
    "row tracking": ({"features": ["rowTracking"]}, "has the table feature 'rowTracking'"),
    "in-commit timestamps": ({"features": ["inCommitTimestamp"]}, "has the table feature 'inCommitTimestamp'"),
    "identity columns": ({"features": ["identityColumns"]}, "has the table feature 'identityColumns'"),
    "clustering": ({"features": ["clustering", "domainMetadata"]}, "has the table feature 'clustering'"),
    "iceberg": ({"features": ["icebergCompatV2"]}, "has the table feature 'icebergCompatV2'"),
    "unknown": ({"features": ["tomorrow"]}, "has the table feature 'tomorrow'"),
    "column mapping": ({"properties": {"delta.columnMapping.mode": "name"}}, "maps its columns to other names"),
    "a check": ({"properties": {"delta.constraints.positive": "id > 0"}}, "has the check constraint 'positive'"),
    "a short memory": (
        {"properties": {"delta.setTransactionRetentionDuration": "interval 1 day"}},
        "forgets application",
    ),
    "an invariant": ({"fields": column("delta.invariants")}, "has column 'a.b' with an invariant"),
    "a generated column": ({"fields": column("delta.generationExpression")}, "has column 'a.b' with a generated value"),
    "an identity": ({"fields": column("delta.identity.start", 1)}, "has column 'a.b' with an identity"),
    "a default": ({"fields": column("CURRENT_DEFAULT")}, "has column 'a.b' with a default value"),
    "binary partitions": (
        {"fields": [{"name": "raw", "type": "binary"}], "partition_by": ["raw"]},
        "is partitioned by 'raw', of type binary",
    ),
}


@pytest.mark.parametrize(("traits", "what"), REFUSED.values(), ids=REFUSED.keys())
def test_what_the_sink_does_not_honour_is_refused_by_name(traits: Mapping[str, Any], what: str) -> None:
    found = list(refusals(replace(PLAIN, **traits), replaces=False))

    assert found[0].what.startswith(what)
    assert all(each.fix for each in found)


@pytest.mark.parametrize(
    "traits",
    [
        {},
        {"features": ["appendOnly", "changeDataFeed", "deletionVectors", "timestampNtz", "v2Checkpoint"]},
        {"features": ["checkConstraints", "columnMapping", "generatedColumns", "invariants"], "writer_version": 7},
        {"properties": {"delta.columnMapping.mode": "none", "delta.appendOnly": "true"}},
        {"properties": {"delta.enableDeletionVectors": "true"}},
    ],
)
def test_what_asks_nothing_of_a_writer_that_only_adds_files_is_accepted(traits: Mapping[str, Any]) -> None:
    assert list(refusals(replace(PLAIN, **traits), replaces=False)) == []


@pytest.mark.parametrize("name", ["delta.appendOnly", "delta.enableDeletionVectors"])
def test_an_upsert_is_refused_where_rows_cannot_be_replaced(name: str) -> None:
    (found,) = refusals(replace(PLAIN, properties={name: "true"}), replaces=True)

    assert name in found.what
    assert list(refusals(replace(PLAIN, properties={name: "false"}), replaces=True)) == []
