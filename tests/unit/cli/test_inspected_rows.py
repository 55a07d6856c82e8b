"""How `streamjob snapshots inspect` shows rows to people: in columns where these fit, else one row below the other."""

from __future__ import annotations

import io

from rich.console import Console

from streamjob.cli.inspection import print_rows
from streamjob.stored.state_tables import StateTable

ROWS = (
    {"key": {"origin": "EWR"}, "value": {"count": 12, "note": "x" * 30}},
    {"key": {"origin": "JFK"}, "value": {"count": 7, "note": None}},
)
COLUMNS = (("key", "origin"), ("value", "count"), ("value", "note"))


def shown(width: int) -> list[str]:
    file = io.StringIO()
    table = StateTable(view=None, title="delays", columns=COLUMNS, rows=ROWS, more=False)
    print_rows(table, Console(file=file, width=width, color_system=None))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_rows_that_fit_are_a_table() -> None:
    title, _, head, _, first, second, *_ = shown(80)

    assert title == "delays"
    assert head.split() == ["key.origin", "value.count", "value.note"]
    assert first.split() == ["EWR", "12", "x" * 30]
    assert second.split() == ["JFK", "7", "–"]


def test_rows_that_are_wider_than_the_terminal_are_records() -> None:
    assert shown(50) == [
        "delays",
        "row 1",
        "key.origin   EWR",
        "value.count  12",
        f"value.note   {'x' * 30}",
        "row 2",
        "key.origin   JFK",
        "value.count  7",
        "value.note   –",
    ]


def test_a_value_that_is_wider_than_the_terminal_is_folded() -> None:
    assert f"value.note   {'x' * 17}" in shown(30)
    assert "".join(line.strip().removeprefix("value.note").strip() for line in shown(30)[4:6]) == "x" * 30
