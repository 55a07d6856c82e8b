"""Which rows can become records of Kafka."""

from __future__ import annotations

import pytest

from streamjob_runtime.sinks.kafka.rows import HEADERS, mismatches


@pytest.mark.parametrize(
    ("columns", "topic"),
    [
        ({"value": "string"}, "alerts"),
        ({"value": "binary", "key": "binary", "topic": "string"}, None),
        ({"value": "string", "headers": HEADERS, "partition": "int", "timestamp": "timestamp"}, "alerts"),
        ({"value": "string", "timestamp": "timestamp_ntz"}, "alerts"),
    ],
)
def test_columns_that_a_record_has_fit(columns: dict[str, str], topic: str | None) -> None:
    assert list(mismatches(columns, topic)) == []


@pytest.mark.parametrize(
    ("columns", "topic", "what"),
    [
        ({"key": "string"}, "alerts", "rows have no column value"),
        ({"value": "string"}, None, "neither an option topic nor a column topic names a topic for the rows"),
        ({"value": "struct<a:int>"}, "alerts", "the column value is struct<a:int>, and has to be string or binary"),
        ({"value": "string", "partition": "bigint"}, "alerts", "the column partition is bigint, and has to be int"),
        ({"value": "string", "offset": "bigint"}, "alerts", "a record has no place for the column offset"),
    ],
)
def test_what_does_not_fit_is_told_with_a_fix(columns: dict[str, str], topic: str | None, what: str) -> None:
    ((found, fix),) = mismatches(columns, topic)

    assert found == what
    assert fix
