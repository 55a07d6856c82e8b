"""Keeps what was measured: a CSV file for each kind of run, with when and where it was measured in front."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, Generic, TypeVar, get_origin

from bench.processes import REPOSITORY
from pydantic import BaseModel, ConfigDict

FOLDER = REPOSITORY / "bench" / "results"


class Row(BaseModel):
    """Base of runs: each field is a column. A tuple is one cell, as is a dictionary."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def __str__(self) -> str:
        short = {name: value for name, value in self if not isinstance(value, tuple | dict)}
        return ", ".join(
            f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in short.items()
        )


R = TypeVar("R", bound=Row)


@dataclass(frozen=True, slots=True)
class Measured(Generic[R]):
    """Runs of a kind, and with which command, when and where they were measured, as a sentence."""

    where: str
    runs: tuple[R, ...]


class Records(Generic[R]):
    """A kind of run, and the file that keeps them.

    Args:
        name: of the file, without its extension.
        kind: of the runs.
        folder: of the file.
    """

    def __init__(self, name: str, kind: type[R], folder: Path = FOLDER) -> None:
        self._kind = kind
        self._file = folder / f"{name}.csv"

    def load(self) -> Measured[R]:
        """Return what the file has; nothing if there is none."""
        lines = self._file.read_text().splitlines(keepends=True) if self._file.exists() else []
        told = list(takewhile(lambda line: line.startswith("#"), lines))
        rows = csv.DictReader(lines[len(told) :])
        where = "".join(line.removeprefix("#").removeprefix(" ") for line in told).strip()
        return Measured(where, tuple(self._kind.model_validate(self._parsed(row)) for row in rows))

    def save(self, where: str, runs: Iterable[R]) -> None:
        """Replace the file."""
        text = io.StringIO("".join(f"# {line}".rstrip() + "\n" for line in where.splitlines()))
        text.seek(0, io.SEEK_END)
        writer = csv.DictWriter(text, tuple(self._kind.model_fields), lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _cell(value) for name, value in run} for run in runs)
        self._file.parent.mkdir(exist_ok=True)
        self._file.write_text(text.getvalue())

    def _parsed(self, row: Mapping[str, str]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, text in row.items():
            kind = get_origin(self._kind.model_fields[name].annotation)
            if kind is tuple:
                found[name] = text.split()
            elif kind is dict:
                found[name] = dict(each.split("=") for each in text.split(";") if each)
            elif text:
                found[name] = text
        return found


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple):
        return " ".join(map(_cell, value))
    if isinstance(value, dict):
        return ";".join(f"{name}={_cell(each)}" for name, each in value.items())
    return str(value)


@dataclass(frozen=True, slots=True)
class Page:
    """A page about stored results.

    Args:
        name: of the page, in capitals.
        render: returns its text.
        draw: returns the picture next to it, as SVG; None for none.
        folder: of both.
    """

    name: str
    render: Callable[[], str]
    draw: Callable[[], str] | None = None
    folder: Path = FOLDER.parent

    def write(self) -> None:
        """Replace the page, and its picture."""
        file = self.folder / f"{self.name}.md"
        file.write_text(self.render())
        if self.draw is not None:
            file.with_name(f"{self.name.lower()}.svg").write_text(self.draw())


def head(title: str, target: str, program: str, numbers: str = "as measured") -> str:
    """Return the first lines of a page.

    Args:
        title: of the page.
        target: of the Makefile that writes it.
        program: the module to change.
        numbers: what the page's numbers are.
    """
    return f"""\
# {title}

<!-- Written by `make {target}`; change bench/{program}. -->

Numbers {numbers}. `results/` has every run.
"""
