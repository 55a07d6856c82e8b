"""Jobs that find the sessions of their events, each with state of another kind, and the sessions that there are."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.integration.runtime import shapes
from tests.integration.runtime.purchases import write_job
from tests.integration.runtime.shapes import GAP, SESSIONS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROOT = Path(__file__).resolve().parents[3]
FILES, ROWS = 5, 12
BEGIN = datetime(2026, 1, 1, 12, tzinfo=UTC)

Session = tuple[str, int, int]


def without_copies(events: DataFrame) -> DataFrame:
    """Return the events without those that came before."""
    return events.dropDuplicatesWithinWatermark(["k", "n"])


_HELD = {"name": "held_events", "inputs": ["events"], "python": f"{__name__}:without_copies"}
KINDS: dict[str, dict[str, Any]] = {
    "session windows": {"name": "sessions", "inputs": ["held_events"], "sql": SESSIONS},
    "timeouts of a function": {"name": "sessions", "inputs": ["held_events"], "python": f"{shapes.__name__}:timeouts"},
}


def state_job(directory: Path, kind: str) -> Path:
    """Write the events and the job file; each event is there twice, and copies are dropped first."""
    for file, events in enumerate(_events()):
        (directory / "in").mkdir(exist_ok=True, parents=True)
        lines = [json.dumps({"k": k, "n": n, "at": (BEGIN + timedelta(seconds=at)).isoformat()}) for k, n, at in events]
        (directory / "in" / f"{file}.json").write_text("\n".join(lines * 2))
    return write_job(
        directory,
        {
            "name": "state",
            "maxParallelism": 3,
            "checkpointing": {"interval": "1s"},
            "sources": [
                {
                    "name": "events",
                    "format": "json",
                    "schema": "k STRING, n BIGINT, at TIMESTAMP",
                    "options": {"path": str(directory / "in"), "maxFilesPerTrigger": 1},
                    "bounded": True,
                    "watermark": {"column": "at", "delay": "5s"},
                }
            ],
            "operators": [_HELD, KINDS[kind]],
            "sinks": [{"name": "out", "input": "sessions", "format": "json", "options": {"path": "out"}}],
        },
    )


def sessions_of(directory: Path) -> Counter[Session]:
    """Return the published sessions."""
    lines = (line for file in directory.glob("*.json") for line in file.read_text().splitlines())
    return Counter((row["k"], row["begin"], row["n"]) for row in map(json.loads, lines))


def all_sessions() -> Counter[Session]:
    """Return the sessions that there are."""
    found: Counter[Session] = Counter()
    by_key: dict[str, list[int]] = {}
    for events in _events():
        for k, _, at in events:
            by_key.setdefault(k, []).append(at)
    for k, times in by_key.items():
        begin = last = times[0]
        count = 0
        for at in times:
            if at - last > GAP:
                found[k, int(BEGIN.timestamp()) + begin, count] += 1
                begin, count = at, 0
            last, count = at, count + 1
        found[k, int(BEGIN.timestamp()) + begin, count] += 1
    return found


def _events() -> list[list[tuple[str, int, int]]]:
    """Return key, number and second of each event, a file each: rows of a key are 3 seconds apart, or far more."""
    files, number = [], 0
    for _ in range(FILES):
        events = []
        for _ in range(ROWS):
            gaps = 20 * (number // 15)
            events.append((f"k{number % 3}", number, number + gaps))
            number += 1
        files.append(events)
    return files
