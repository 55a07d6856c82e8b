"""Small jobs of every shape, whose last rows stand still at a gate, and what a batch makes of their input.

A shape's output depends on state on both sides of the gate: windows and sessions that are open, rows that wait for a
partner.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.integration.runtime.embedded import Life, life_in
from tests.integration.runtime.graphs import SCHEMA, Row, add_rows, job, output, rows_of, source
from tests.jobs import sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MODULE = __name__
FILES = 4
ROWS = 9
"""Rows in each file of a source, one a batch; the gate stands before the last."""
GAP = 5
"""Seconds without a row that end a session."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A job of some form.

    Args:
        sources: their names.
        operators: by name, their inputs and their SQL, or the name of a function in this module.
        outputs: the operators whose rows are recorded.
        ending: the sources that end, and have no gate; the others end where all sources do.
        chains: how many chains it has.
        finished: chains whose input ends before the gates.
        split: operators that are chains of their own: what stands at the gate reads nothing but sources, so that no
            barrier waits for it.
        like: operators whose function gives what another one's query gives.
    """

    sources: tuple[str, ...]
    operators: tuple[tuple[str, tuple[str, ...], str], ...]
    outputs: tuple[str, ...]
    chains: int
    ending: tuple[str, ...] = ()
    finished: tuple[str, ...] = ()
    split: tuple[str, ...] = ()
    like: tuple[tuple[str, str], ...] = ()

    def job(self, directory: Path, *, bounded: bool) -> dict[str, Any]:
        """Write the input below `directory`; return the job. Its sources end if `bounded` or if they do in any case."""
        for name in self.sources:
            write_rows(directory, name, None if name in self.ending else gate(directory, name))
        sources = [self._source(directory, name, bounded) for name in self.sources]
        held = [held_operator(name) for name in self.sources]
        operators = [_operator(*each, chain=each[0] not in self.split) for each in self.operators]
        changes = {"checkpointing": {"interval": "1h", "numRetained": 100}}
        return job(directory, sources, [*held, *operators], self.outputs, **changes)

    def life(self, directory: Path, *, bounded: bool) -> Life:
        """Write the job and its input; return its life."""
        spec = self.job(directory, bounded=bounded)
        return life_in(directory, spec)

    def rows(self, directory: Path) -> dict[str, Counter[Any]]:
        """Return what has been published below `directory`, by operator."""
        return {name: rows_of(output(directory, name)) for name in self.outputs}

    def batch(self, spark: SparkSession, directory: Path) -> dict[str, Counter[Any]]:
        """Return what Spark makes of the same input and queries as a batch, by operator; its gates must be open."""
        session, like = spark.newSession(), dict(self.like)
        for name in self.sources:
            read = session.read.schema(SCHEMA).json(str(directory / name))
            read.drop("gate").createOrReplaceTempView(f"held_{name}")
        found = {}
        for name, _, code in self.operators:
            if name not in like:
                frame = session.sql(code)
                frame.createOrReplaceTempView(name)
                found[name] = Counter(tuple(row) for row in frame.collect())
        return {name: found[like.get(name, name)] for name in self.outputs}

    def _source(self, directory: Path, name: str, bounded: bool) -> dict[str, Any]:
        return source(name, directory / name, bounded=name in self.ending or (bounded and not self.ending))


def gate(directory: Path, name: str) -> Path:
    """Return the file without which a source's last rows do not get through."""
    return directory / f"gate-{name}"


class Gates:
    """The gates of a shape's sources.

    Args:
        shape: the shape.
        directory: where its input is.
    """

    def __init__(self, shape: Shape, directory: Path) -> None:
        self._gates = [gate(directory, name) for name in shape.sources if name not in shape.ending]

    def open(self) -> None:
        """Let all rows through."""
        for path in self._gates:
            path.touch()

    def reached(self) -> bool:
        """Return whether all sources have come to their gate."""
        return all(path.with_suffix(".reached").exists() for path in self._gates)


def write_rows(directory: Path, name: str, closed: Path | None) -> None:
    """Write the rows of a source; the last file is behind the gate `closed`.

    Rows of a key are three seconds apart, but there is a much longer gap after the fifth.
    """
    for number in range(FILES):
        behind = str(closed) if closed and number == FILES - 1 else ""
        indices = range(number * ROWS, (number + 1) * ROWS)
        add_rows(
            directory / name,
            number,
            [Row(f"k{each % 3}", each // 3, each + (20 if each >= 5 * 3 else 0), behind) for each in indices],
        )


def held_operator(name: str) -> dict[str, Any]:
    """Return the operator `held_<name>`, which hands a source's rows on once they may pass the gate."""
    return {"name": f"held_{name}", "inputs": [name], "python": f"{MODULE}:held"}


def _operator(name: str, inputs: tuple[str, ...], code: str, *, chain: bool) -> dict[str, Any]:
    if code.isidentifier():
        return {"name": name, "inputs": list(inputs), "python": f"{MODULE}:{code}", "chain": chain}
    return sql(name, inputs, code, chain=chain)


def held(rows: DataFrame) -> DataFrame:
    """Return the rows without the column `gate`, once the file exists that it names."""
    from pyspark.sql.functions import col, udf

    # A filter: an unused column would not be computed.
    def may_pass(gate: str) -> bool:
        import time
        from pathlib import Path

        while gate and not Path(gate).exists():
            Path(f"{gate}.reached").touch()
            time.sleep(0.01)
        return True

    return rows.where(udf(may_pass, "boolean")(col("gate"))).drop("gate")


def timeouts(rows: DataFrame) -> DataFrame:
    """Return sessions of each key, ended by event-time timeouts of state that a function keeps."""
    from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

    gap = GAP

    def sessions(key: tuple[Any, ...], frames: Iterator[Any], state: GroupState) -> Iterator[Any]:
        import pandas as pd

        begin, last, count = state.get if state.exists else (0, 0, 0)
        ended = []
        if state.hasTimedOut:
            ended.append((begin, count))
            count = 0
        seconds = sorted(int(each.timestamp()) for frame in frames for each in frame["at"]) if not ended else []
        for second in seconds:
            if count and second - last > gap:
                ended.append((begin, count))
                count = 0
            begin, last, count = (begin if count else second), second, count + 1
        if count:
            state.update((begin, last, count))
            state.setTimeoutTimestamp((last + gap) * 1000)
        else:
            state.remove()
        yield pd.DataFrame([(key[0], *each) for each in ended], columns=["k", "begin", "n"])

    grouped = rows.groupBy("k")
    return grouped.applyInPandasWithState(
        sessions,
        "k STRING, begin BIGINT, n BIGINT",
        "begin BIGINT, last BIGINT, n BIGINT",
        "append",
        GroupStateTimeout.EventTimeTimeout,
    )


def timers(rows: DataFrame) -> DataFrame:
    """Return sessions of each key, ended by event-time timers."""
    from pyspark.sql import Row as SparkRow
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

    gap = GAP

    class Sessions(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self.handle = handle
            # By the second in which each began: the last one's, and how many rows.
            self.open = handle.getMapState("open", "begin BIGINT", "last BIGINT, n BIGINT")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[SparkRow]:
            for second in sorted(int(row["at"].timestamp()) for row in rows):
                begin, count = second, 0
                for (other,), (last, held) in list(self.open.iterator()):
                    if second - last <= gap:
                        begin, count = other, held
                self.open.updateValue((begin,), (second, count + 1))
                self.handle.registerTimer((second + gap) * 1000)
            return iter([])

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[SparkRow]:
            now = expiredTimerInfo.getExpiryTimeInMs() // 1000
            for (begin,), (last, held) in list(self.open.iterator()):
                if last + gap == now:
                    self.open.removeKey((begin,))
                    yield SparkRow(k=key[0], begin=begin, n=held)

        def close(self) -> None:
            pass

    return rows.groupBy("k").transformWithState(Sessions(), "k STRING, begin BIGINT, n BIGINT", "append", "eventtime")


WINDOWS = "SELECT k, unix_seconds(window.start) AS begin, count(*) AS n FROM {} GROUP BY k, window(at, '10 seconds')"
SESSIONS = (
    "SELECT k, unix_seconds(session_window.start) AS begin, count(*) AS n FROM held_events "
    f"GROUP BY k, session_window(at, '{GAP} seconds')"
)
PAIRS = (
    "SELECT l.k, l.n, r.n AS other FROM {} l {} JOIN {} r ON l.k = r.k AND l.n = r.n + 1 "
    "AND r.at BETWEEN l.at - INTERVAL 10 SECONDS AND l.at"
)

_STEPS = ("held_events", "step1", "step2", "step3")
SHAPES = {
    "one chain": Shape(
        sources=("events",),
        operators=(("windows", ("held_events",), WINDOWS.format("held_events")),),
        outputs=("windows",),
        chains=1,
    ),
    "a bounded source and an unbounded one": Shape(
        sources=("weather", "flights"),
        ending=("weather",),
        operators=(
            ("windows", ("held_weather",), WINDOWS.format("held_weather")),
            ("pairs", ("held_flights", "held_weather"), PAIRS.format("held_flights", "", "held_weather")),
        ),
        outputs=("windows", "pairs"),
        finished=("held_weather", "windows"),
        split=("pairs",),
        chains=4,
    ),
    "fan-out": Shape(
        sources=("events",),
        operators=(
            ("even", ("held_events",), "SELECT k, n FROM held_events WHERE n % 2 = 0"),
            ("odd", ("held_events",), "SELECT k, n, at FROM held_events WHERE n % 2 = 1"),
            ("windows", ("odd",), WINDOWS.format("odd")),
        ),
        outputs=("even", "windows"),
        chains=3,
    ),
    "depth of four": Shape(
        sources=("events",),
        operators=(
            *((name, (before,), f"SELECT k, n, at FROM {before}") for before, name in pairwise(_STEPS)),
            ("windows", (_STEPS[-1],), WINDOWS.format(_STEPS[-1])),
        ),
        outputs=("windows",),
        split=_STEPS[1:],
        chains=5,
    ),
    "sessions and timers": Shape(
        sources=("events",),
        operators=(
            ("sessions", ("held_events",), SESSIONS),
            ("by_timeouts", ("held_events",), "timeouts"),
            ("by_timers", ("held_events",), "timers"),
        ),
        outputs=("sessions", "by_timeouts", "by_timers"),
        chains=4,
        like=(("by_timeouts", "sessions"), ("by_timers", "sessions")),
    ),
    "outer join": Shape(
        sources=("left_rows", "right_rows"),
        operators=(
            (
                "pairs",
                ("held_left_rows", "held_right_rows"),
                PAIRS.format("held_left_rows", "LEFT", "held_right_rows"),
            ),
        ),
        outputs=("pairs",),
        chains=1,
    ),
}
