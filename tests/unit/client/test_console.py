"""How wide the tables of the command line are."""

from __future__ import annotations

import io

import pytest
from rich.table import Table

from streamjob.client.console import console_for

LONG = "x" * 300


def lines(file: io.TextIOBase) -> list[str]:
    table = Table("name", "value")
    table.add_row("uid", LONG)
    console_for(file).print(table)  # type: ignore[arg-type]
    file.seek(0)
    return file.read().splitlines()


def test_a_table_in_a_pipe_has_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    written = lines(io.StringIO())

    assert sum(LONG in each for each in written) == 1
    assert max(map(len, written)) < 330


def test_a_table_on_a_terminal_fits_into_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("NO_COLOR", "1")

    assert max(map(len, lines(Terminal()))) <= 80
