"""Jobs that find the sessions of their events, each with state of another kind, and the sessions that there are."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests import jobs
from tests.integration.runtime import shapes
from tests.integration.runtime.purchases import write_job
from tests.integration.runtime.shapes import GAP, SESSIONS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROOT = Path(__file__).resolve().parents[3]
FILES, ROWS = 5, 12
KEYS = ("k0", "k1", "k2")
BEGIN = datetime(2026, 1, 1, 12, tzinfo=UTC)

Session = tuple[str, int, int]


def without_copies(events: DataFrame) -> DataFrame:
    """Return the events without those that came before."""
    return events.dropDuplicatesWithinWatermark(["k", "n"])


def without_copies_by_number(events: DataFrame) -> DataFrame:
    """Do the same, with state whose keys have the number first."""
    return events.dropDuplicatesWithinWatermark(["n", "k"])


def expiring(rows: DataFrame) -> DataFrame:
    """Return sessions of each key, found with a processor's state of every kind, each with a time to live."""
    from pyspark.sql import Row as SparkRow
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

    gap, last_of_key = GAP, FILES * ROWS - len(KEYS)
    an_hour, at_once = 3_600_000, 1

    class Sessions(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self.open = handle.getValueState("open", "begin BIGINT, last BIGINT, n BIGINT", an_hour)
            self.numbers = handle.getListState("numbers", "n BIGINT", an_hour)
            self.seconds = handle.getMapState("seconds", "n BIGINT", "second BIGINT", an_hour)
            self.gone = handle.getValueState("gone", "n BIGINT", at_once)

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[SparkRow]:
            if self.gone.exists():
                raise AssertionError("state whose time was over came back")
            for n, second in sorted((row["n"], int(row["at"].timestamp())) for row in rows):
                began, last, count = self.open.get() or (second, second, 0)
                listed = [each for (each,) in self.numbers.get()] if count else []
                if count and second - last > gap:
                    yield SparkRow(k=key[0], begin=began, n=count)
                    began, count = second, 0
                mapped = {at for (_,), (at,) in self.seconds.iterator()}
                if listed and (max(listed) != n - len(KEYS) or last not in mapped or len(mapped) != len(listed)):
                    raise AssertionError(f"key {key} has {listed} and {mapped} in state before row {n}")
                self.open.update((began, second, count + 1))
                self.numbers.appendValue((n,))
                self.seconds.updateValue((n,), (second,))
                if n >= last_of_key:
                    yield SparkRow(k=key[0], begin=began, n=count + 1)
            self.gone.update((1,))

        def close(self) -> None:
            pass

    return rows.groupBy("k").transformWithState(
        Sessions(), "k STRING, begin BIGINT, n BIGINT", "append", "processingTime"
    )


_HELD = {"name": "held_events", "inputs": ["events"], "python": f"{__name__}:without_copies"}
KINDS: dict[str, dict[str, Any]] = {
    "session windows": jobs.sql("sessions", "held_events", SESSIONS),
    "timeouts of a function": jobs.python("sessions", "held_events", f"{shapes.__name__}:timeouts"),
    "timers of a processor": jobs.python("sessions", "held_events", f"{shapes.__name__}:timers"),
    "a processor's state that expires": jobs.python("sessions", "held_events", f"{__name__}:expiring"),
}


def state_job(directory: Path, kind: str, *, copies: int = 2, held: Mapping[str, Any] = _HELD) -> Path:
    """Write the events and the job file; each event is there more than once, and `held` drops the copies first."""
    for file, events in enumerate(_events()):
        (directory / "in").mkdir(exist_ok=True, parents=True)
        lines = [json.dumps({"k": k, "n": n, "at": (BEGIN + timedelta(seconds=at)).isoformat()}) for k, n, at in events]
        (directory / "in" / f"{file}.json").write_text("\n".join(lines * copies))
    watermark, schema = {"column": "at", "delay": "5s"}, "k STRING, n BIGINT, at TIMESTAMP"
    job = jobs.job_file(
        dict(held),
        KINDS[kind],
        sources=[jobs.files("events", directory / "in", schema, bounded=True, watermark=watermark)],
        sinks=[jobs.sink("sessions", "json", "out")],
        name="state",
        maxParallelism=3,
        checkpointing={"interval": "1s"},
    )
    return write_job(directory, job)


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
            events.append((KEYS[number % len(KEYS)], number, number + gaps))
            number += 1
        files.append(events)
    return files
