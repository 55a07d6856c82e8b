"""A job with all topologies: a pipeline through a slow operator, fan-out, a union of several inputs, a join."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.integration.runtime.graphs import (
    Row,
    add_rows,
    difference,
    disorder,
    in_flight,
    job,
    numbered,
    output,
    python,
    rows_of,
    source,
)
from tests.integration.runtime.processes import JobRuns
from tests.jobs import sql

from streamjob.snapshot.manifest import Manifest

FILES = 12
ROWS = 50
"""Rows in a file of one source; the slow operator takes half a second for them."""


def topologies(directory: Path, checkpointing: dict[str, Any]) -> dict[str, Any]:
    """Return the job; the channel before its slow operator holds several seconds of work."""
    operators = [
        *apart("k, n"),
        sql("lefts", ["both"], "SELECT k, n FROM both WHERE side = 'left'", chain=False),
    ]
    sources = inputs(directory, numbered(0, FILES * ROWS), ROWS)
    return job(
        directory,
        sources,
        operators,
        ["both", "pairs", "lefts"],
        checkpointing={"interval": "300ms", "numRetained": 5, **checkpointing},
        channels={"capacityRecords": 5 * ROWS, "maxBatchRecords": ROWS},
    )


def inputs(directory: Path, rows: Sequence[Row], per_file: int) -> list[dict[str, Any]]:
    """Write the same rows to the sources `left` and `right`; return the sources."""
    for name in ("left", "right"):
        for number, begin in enumerate(range(0, len(rows), per_file)):
            add_rows(directory / name, number, rows[begin : begin + per_file])
    return [source(name, directory / name, bounded=True) for name in ("left", "right")]


def apart(columns: str) -> list[dict[str, Any]]:
    """Return the slow operator of `left`, and its union and join with `right`, each in a chain of its own.

    Args:
        columns: those of the union, besides the side that a row is from.
    """
    return [
        python("slow", "left", "slowed"),
        sql(
            "both",
            ["slow", "right"],
            f"SELECT 'left' AS side, {columns} FROM slow UNION ALL SELECT 'right', {columns} FROM right",
            chain=False,
        ),
        sql(
            "pairs",
            ["slow", "right"],
            "SELECT l.k, l.n FROM slow l JOIN right r ON l.k = r.k AND l.n = r.n "
            "AND r.at BETWEEN l.at - INTERVAL 5 SECONDS AND l.at + INTERVAL 5 SECONDS",
            chain=False,
        ),
    ]


def check_output(directory: Path) -> None:
    """Check what the job has published in the end: nothing is lost, doubled or out of order."""
    rows = numbered(0, FILES * ROWS)
    both, pairs, lefts = (output(directory, name) for name in ("both", "pairs", "lefts"))
    assert not difference(Counter((side, row.k, row.n) for side in ("left", "right") for row in rows), rows_of(both))
    assert not difference(Counter((row.k, row.n) for row in rows), rows_of(pairs))
    assert not difference(Counter((row.k, row.n) for row in rows), rows_of(lefts))
    assert disorder(both) == []
    assert disorder(lefts) == []


def held(manifest: Manifest | None) -> int:
    """Return how many records of channels a snapshot holds, if there is one."""
    return in_flight(manifest) if manifest else 0


def last_manifest(runs: JobRuns) -> Manifest | None:
    """Return the manifest of the newest retained snapshot."""
    completions = runs.completions()
    return runs.manifest(completions[-1]) if completions else None
