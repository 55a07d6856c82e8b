"""Graphs of chains over numbered rows, so that loss, duplicates and reordering show.

Every source hands out, for each of a few keys, the numbers from 0 on in their order. Inside a batch rows have no order;
from batch to batch the numbers of a key must grow.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests import jobs
from tests.integration.runtime.purchases import add_file
from tests.integration.runtime.recording import recorded

from streamjob.snapshot.manifest import Manifest
from streamjob.snapshot.record import LogRecord

MODULE = "tests.integration.runtime.recording"
SCHEMA = "k STRING, n BIGINT, at TIMESTAMP, gate STRING"
BEGIN = datetime(2026, 1, 1, 12, tzinfo=UTC)
KEYS = 3
MODES: dict[str, dict[str, Any]] = {
    "aligned": {"mode": "aligned"},
    "unaligned": {"mode": "unaligned"},
    "switching": {"mode": "aligned", "alignedCheckpointTimeout": "50ms"},
}
"""How checkpoints are taken."""

Batch = tuple[int, Sequence[Sequence[Any]]]


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a source: number `n` of key `k`, at `second` past noon; `gate` is for the operators that look at it."""

    k: str
    n: int
    second: float
    gate: str = ""

    def fields(self) -> dict[str, Any]:
        """Return it as a line of an input file."""
        at = BEGIN + timedelta(seconds=self.second)
        return {"k": self.k, "n": self.n, "at": at.isoformat(), "gate": self.gate}


def numbered(start: int, count: int, gate: str = "") -> list[Row]:
    """Return the rows from the `start`-th of a source on, a second apart."""
    return [Row(f"k{index % KEYS}", index // KEYS, index, gate) for index in range(start, start + count)]


def add_rows(directory: Path, number: int, rows: Iterable[Row]) -> None:
    """Add an input file, which appears whole; files are read in the order of their numbers."""
    add_file(directory, number, [row.fields() for row in rows])


def source(name: str, path: Path, *, bounded: bool = False, delay: str = "0s") -> dict[str, Any]:
    """Return a source that reads a file a batch."""
    path.mkdir(parents=True, exist_ok=True)
    return jobs.files(name, path, SCHEMA, bounded=bounded, watermark={"column": "at", "delay": delay})


def python(name: str, source: str, function: str) -> dict[str, Any]:
    """Return an operator of `recording`, in a chain of its own."""
    return jobs.python(name, source, f"{MODULE}:{function}", chain=False)


def sink(operator: str, directory: Path) -> dict[str, Any]:
    """Return a sink that records what an operator makes."""
    return jobs.sink(operator, f"{MODULE}:Sink", directory / "out" / operator)


def job(
    directory: Path,
    sources: list[dict[str, Any]],
    operators: list[dict[str, Any]],
    outputs: Sequence[str],
    **changes: Any,
) -> dict[str, Any]:
    """Return a job that records `outputs` below `directory`; `changes` replace whole fields."""
    sinks = [sink(name, directory) for name in outputs]
    usual = {"name": "graph", "parallelism": 2, "maxParallelism": 2, "checkpointing": {"interval": "300ms"}}
    return {**jobs.job_file(*operators, sources=sources, sinks=sinks, **usual), **changes}


def output(directory: Path, operator: str) -> list[Batch]:
    """Return what a job has published of an operator's rows, by batch."""
    return list(recorded(directory / "out" / operator))


def rows_of(batches: Iterable[Batch]) -> Counter[Any]:
    """Return all rows of some batches, however often each is there."""
    return Counter(tuple(row) for _, rows in batches for row in rows)


def disorder(batches: Iterable[Batch]) -> list[str]:
    """Return where rows came in the wrong order; the last column is the number, those before it are the key."""
    reached: dict[Any, int] = defaultdict(lambda: -1)
    found = []
    last_batch = -1
    for batch, rows in batches:
        if batch <= last_batch:
            found.append(f"batch {batch} behind batch {last_batch}")
        last_batch = batch
        highest: dict[Any, int] = {}
        for *key, number in rows:
            name = tuple(key)
            if number <= reached[name]:
                found.append(f"{name} {number} in batch {batch}, behind {reached[name]}")
            highest[name] = max(number, highest.get(name, -1))
        reached.update(highest)
    return found


def difference(expected: Counter[Any], found: Counter[Any]) -> str:
    """Return what is lost and what is there too often, in a few words; empty if nothing is."""
    lost, surplus = expected - found, found - expected
    if not lost and not surplus:
        return ""
    return f"{lost.total()} lost: {sorted(lost)[:5]}; {surplus.total()} surplus: {sorted(surplus)[:5]}"


def manifests(root: Path) -> list[Manifest]:
    """Return the retained snapshots of a job whose root is a directory, oldest first."""
    records = [LogRecord.model_validate_json(file.read_bytes()) for file in sorted((root / "log").glob("*.json"))]
    paths = [root / str(record.manifest) for record in records if record.completes]
    return [Manifest.model_validate_json(path.read_bytes()) for path in paths if path.exists()]


def segments(manifest: Manifest) -> dict[tuple[str, int], int]:
    """Return where the records in flight of a snapshot are stored, object and offset, and how many each place holds."""
    entries = (entry for channel in manifest.channels for entry in channel.entries)
    return {(each.object, each.offset): each.records for entry in entries for each in entry.segments}


def in_flight(manifest: Manifest) -> int:
    """Return how many records of channels a snapshot holds."""
    return sum(segments(manifest).values())
