"""The options of lake tables as sources are checked before anything is asked."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from streamjob.job.connectors.lake_source import delta_problems, iceberg_problems, parse_delta, start_of

DELTA = {"path": "s3://bucket/t", "storage.AWS_REGION": "x"}
ICEBERG = {"table": "lake.orders", "catalog.type": "rest", "catalog.uri": "https://catalog", "catalog.s3.region": "x"}


def test_without_options_the_table_is_read_as_it_is_and_changes_are_errors() -> None:
    options = parse_delta(DELTA, "source orders")

    assert (options.starting_snapshot, options.on_change) == ("current", "fail")
    assert list(iceberg_problems(ICEBERG)) == []


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("current", "current"),
        ("newest", "newest"),
        ("oldest", "oldest"),
        ("0", 0),
        ("6774836707514459366", 6774836707514459366),
        ("2026-07-01T12:00:00Z", datetime(2026, 7, 1, 12, tzinfo=UTC)),
        ("2026-07-01T12:00:00", None),
        ("-1", None),
        ("latest", None),
    ],
)
def test_a_start_is_a_word_an_id_or_a_time_with_its_zone(text: str, start: object) -> None:
    assert start_of(text) == start


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"startingSnapshot": "latest"}, "'startingSnapshot' is neither a word"),
        ({"onChange": "rows"}, "the option 'onChange' cannot be used"),
        ({"mode": "append"}, "has no option 'mode'"),
    ],
)
def test_problems_name_the_option(more: Mapping[str, str], problem: str) -> None:
    for found in (delta_problems({**DELTA, **more}), iceberg_problems({**ICEBERG, **more})):
        assert [problem in each.what for each in found] == [True]


def test_changed_rows_are_read_of_delta_tables_only() -> None:
    more = {"onChange": "changeRows"}

    assert parse_delta({**DELTA, **more}, "source orders").on_change == "changeRows"
    assert ["record no changed rows" in each.what for each in iceberg_problems({**ICEBERG, **more})] == [True]


def test_a_table_and_its_catalog_are_checked_as_for_a_sink() -> None:
    found = {each.what for each in iceberg_problems({"table": "orders"})}

    assert any("names no table of a namespace" in what for what in found)
    assert any("names no catalog" in what for what in found)
    assert [each.what for each in delta_problems({})] == ["lacks the option 'path'"]
