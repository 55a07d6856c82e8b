"""Windows over the rows of functions that keep state: the declared event time holds across kills and restores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.core import core, thorough
from tests.integration.runtime import shapes
from tests.integration.runtime.embedded import Life, life_in, running
from tests.integration.runtime.graphs import BEGIN, Row, add_rows, job, output, rows_of, source
from tests.integration.runtime.power import Power
from tests.integration.runtime.purchases import write_job
from tests.integration.runtime.stories import killed_and_finished
from tests.jobs import sql

from streamjob.errors import InvalidInput
from streamjob.job.loading.load import load_job
from streamjob.job.planning.plan import plan
from streamjob_runtime.process.checking.validation import validate_with

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LONGEST = shapes.GAP + 12
"""Seconds from the begin of the longest session to its end."""
WINDOW = 20
WINDOWS = (
    f"SELECT k, unix_seconds(window.start) AS start, count(*) AS sessions, sum(n) AS n FROM {{}} "
    f"GROUP BY k, window(at, '{WINDOW} seconds')"
)
TIMED = "SELECT k, n, timestamp_seconds(begin) AS at FROM sessions"
WATERMARK = {"watermark": {"column": "at", "delay": f"{LONGEST}s"}}


def by_timeouts(rows: DataFrame) -> DataFrame:
    """Return sessions that `applyInPandasWithState` finds, with the time of their begin."""
    return shapes.timeouts(rows).selectExpr("k", "n", "timestamp_seconds(begin) AS at")


def by_timers(rows: DataFrame) -> DataFrame:
    """Return sessions that `transformWithState` finds, with the time of their begin."""
    return shapes.timers(rows).selectExpr("k", "n", "timestamp_seconds(begin) AS at")


def ends(rows: DataFrame) -> DataFrame:
    """Return the rows at the time when a timer has fired for them; Spark knows this time as their event time."""
    from pyspark.sql import Row as SparkRow
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

    class Ends(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self.handle = handle
            self.held = handle.getMapState("held", "second BIGINT", "n BIGINT")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[SparkRow]:
            for row in rows:
                second = int(row["at"].timestamp()) + shapes.GAP
                self.held.updateValue((second,), (row["n"],))
                self.handle.registerTimer(second * 1000)
            return iter([])

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[SparkRow]:
            from datetime import UTC, datetime

            second = expiredTimerInfo.getExpiryTimeInMs() // 1000
            held = self.held.getValue((second,))
            assert held is not None
            (n,) = held
            self.held.removeKey((second,))
            yield SparkRow(k=key[0], n=n, at=datetime.fromtimestamp(second, UTC))

        def close(self) -> None:
            pass

    return rows.groupBy("k").transformWithState(
        Ends(), "k STRING, n BIGINT, at TIMESTAMP", "append", "eventtime", eventTimeColumnName="at"
    )


def function(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": "sessions", "inputs": ["events"], "python": f"{__name__}:{name}", **fields}


FORMS: dict[str, list[dict[str, Any]]] = {
    "timeouts": [function("by_timeouts", **WATERMARK), sql("windows", ["sessions"], WINDOWS.format("sessions"))],
    "timers": [function("by_timers", **WATERMARK), sql("windows", ["sessions"], WINDOWS.format("sessions"))],
    "timed by an operator behind": [
        {**function("timeouts"), "python": f"{shapes.__name__}:timeouts"},
        {**sql("timed", ["sessions"], TIMED), **WATERMARK},
        sql("windows", ["timed"], WINDOWS.format("timed")),
    ],
    "timed behind a channel": [
        {**function("timeouts"), "python": f"{shapes.__name__}:timeouts", "chain": False},
        {**sql("timed", ["sessions"], TIMED), **WATERMARK},
        sql("windows", ["timed"], WINDOWS.format("timed")),
    ],
    "timed by Spark": [function("ends"), sql("windows", ["sessions"], WINDOWS.format("sessions"))],
    "timed by Spark and split": [
        function("ends", chain=False),
        sql("windows", ["sessions"], WINDOWS.format("sessions")),
    ],
}
CHAINS = {"timed behind a channel": 4, "timed by Spark": 1, "timed by Spark and split": 3}


def events(size: int = 9) -> list[list[Row]]:
    """Return the rows of each file: those of a key are three seconds apart, with a gap after each fifth."""
    rows = [Row(f"k{each % 3}", each // 3, each + each // 15 * 20) for each in range(75)]
    return [rows[number : number + size] for number in range(0, len(rows), size)]


def write(directory: Path, form: str, *, bounded: bool) -> Life:
    for number, rows in enumerate(events() if bounded else events(40)):
        add_rows(directory / "in", number, rows)
    spec = job(
        directory,
        [source("events", directory / "in", bounded=bounded)],
        FORMS[form],
        ["windows"],
        checkpointing={"interval": "1h" if bounded else "300ms"},
        # A kill has to find some batches behind each channel.
        channels={"maxBatchRecords": 10},
    )
    life = life_in(directory, spec)
    assert len(plan(load_job(life.file).spec).chains) == CHAINS.get(form, 2)
    return life


def expected(form: str) -> Counter[Any]:
    """Return the windows over the sessions, or over the ends of all rows."""
    rows = [(row.k, row.n, int(row.second)) for file in events() for row in file]
    if form.startswith("timed by Spark"):
        found = [(k, second + shapes.GAP, n) for k, n, second in rows]
    else:
        found = []
        for k in sorted({k for k, _, _ in rows}):
            begin, last, count = -1, -1, 0
            for second in sorted(second for each, _, second in rows if each == k):
                if count and second - last > shapes.GAP:
                    found.append((k, begin, count))
                    count = 0
                begin, last, count = (begin if count else second), second, count + 1
            found.append((k, begin, count))
    windows: dict[tuple[str, int], list[int]] = {}
    for k, second, n in found:
        at = int(BEGIN.timestamp()) + second
        windows.setdefault((k, at // WINDOW * WINDOW), []).append(n)
    return Counter({(k, start, len(each), sum(each)): 1 for (k, start), each in windows.items()})


@pytest.mark.parametrize("form", core(FORMS, kept=["timed by an operator behind", "timers", "timeouts"]))
def test_windows_over_the_rows_of_a_function_with_state_are_complete_after_a_kill(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    life = write(tmp_path, form, bounded=True)

    killed_and_finished(spark, life, Power(monkeypatch))

    assert rows_of(output(tmp_path, "windows")) == expected(form)


@pytest.mark.parametrize("form", thorough(FORMS, "timers", "timed by an operator behind"))
def test_windows_over_the_rows_of_a_function_with_state_close_while_the_input_goes_on(
    spark: SparkSession, tmp_path: Path, form: str
) -> None:
    life = write(tmp_path, form, bounded=False)
    all_windows = expected(form)
    last = max(row.second for file in events() for row in file) + BEGIN.timestamp()
    due = Counter({each: 1 for each in all_windows if each[1] + WINDOW < last - LONGEST - shapes.GAP})
    assert len(due) >= 6

    with running(spark, life) as running_job:
        running_job.wait_for(lambda: rows_of(output(tmp_path, "windows")) >= due, "windows that are due")
        running_job.stop()

    assert rows_of(output(tmp_path, "windows")) <= all_windows


@pytest.mark.parametrize("chain", [True, False], ids=["fused", "split"])
def test_a_function_that_loses_the_event_time_is_named_with_the_fix(
    spark: SparkSession, tmp_path: Path, chain: bool
) -> None:
    operators = [function("by_timeouts", chain=chain), sql("windows", ["sessions"], WINDOWS.format("sessions"))]
    spec = job(tmp_path, [source("events", tmp_path / "in")], operators, ["windows"])

    with pytest.raises(InvalidInput, match="as one query") as refused:
        validate_with(spark, tmp_path / "scratch", load_job(write_job(tmp_path / "job", spec)))

    assert "give operator 'sessions' `watermark: {column: …, delay: …}`" in str(refused.value)


@pytest.mark.parametrize(
    ("column", "words"),
    [("begin", ["'begin'", "k, n, at"]), ("n", ["'n'", "BIGINT", "TIMESTAMP"])],
    ids=["no such column", "another type"],
)
def test_an_event_time_that_the_rows_do_not_have_is_refused(
    spark: SparkSession, tmp_path: Path, column: str, words: list[str]
) -> None:
    operators = [function("by_timeouts", watermark={"column": column, "delay": "1s"})]
    spec = job(tmp_path, [source("events", tmp_path / "in")], operators, ["sessions"])

    with pytest.raises(InvalidInput) as refused:
        validate_with(spark, tmp_path / "scratch", load_job(write_job(tmp_path / "job", spec)))

    for word in words:
        assert word in str(refused.value)
