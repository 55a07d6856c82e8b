"""An operator whose state no longer fits starts empty in its place, and the output is exact."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.core import thorough
from tests.integration.runtime.embedded import FAST, Life, running
from tests.integration.runtime.graphs import (
    Row,
    add_rows,
    difference,
    job,
    manifests,
    numbered,
    output,
    rows_of,
    source,
)
from tests.integration.runtime.power import Moment, Power
from tests.integration.runtime.purchases import write_job
from tests.integration.runtime.stories import NEVER, wait_while_running
from tests.jobs import sql

from streamjob.comparison.graphs import compare
from streamjob.comparison.refusals import NewStateInOldChain, NonRestoredState, OutputModeChanged, StateChanged
from streamjob.comparison.verdicts import Comparison
from streamjob.errors import CannotRestore, ExitCode
from streamjob.ids import OperatorUid, TriggerId
from streamjob.job.loading.load import load_job
from streamjob.job.planning.plan import plan
from streamjob.protocol.lifecycle import JobState
from streamjob.protocol.log.records import JobId
from streamjob.snapshot.manifest import Manifest
from streamjob.stored.locations import find_snapshot
from streamjob.stored.reading import read_snapshot
from streamjob.stored.start_snapshot import opened
from streamjob.stored.state_stores import read_state_operators
from streamjob.stored.state_tables import TablesRequest, choose_operators
from streamjob.stored.verify import verify
from streamjob_runtime.checkpointing.ledger import RestoreFrom
from streamjob_runtime.control.api.refusals import StateConflict
from streamjob_runtime.inspection import read_tables
from streamjob_runtime.process.checking.start_check import judged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

Operator = dict[str, Any]

CUT, MIDDLE, ROWS = 80, 130, 180
"""How many of the rows, a second apart, are read before the change, by the next checkpoint, and in all."""
LATE = Row("k0", 777, 5)
"""A row that comes behind the change, and is late by the event time before it."""
END = [Row("end", 0, 9999)]
OUT = "out"


def windows(length: str, of: str = "events") -> str:
    return (
        f"SELECT k, unix_seconds(window.start) AS start, count(*) AS rows FROM {of} GROUP BY k, window(at, '{length}')"
    )


def pairs(kind: str) -> str:
    return (
        f"SELECT l.k, l.n, r.n AS other FROM events l {kind} JOIN others r ON l.k = r.k AND l.n = r.n + 1 "
        "AND r.at BETWEEN l.at - INTERVAL 10 SECONDS AND l.at"
    )


def counted(events: DataFrame) -> DataFrame:
    return _with_state(events, "n BIGINT")


def counted_and_summed(events: DataFrame) -> DataFrame:
    return _with_state(events, "counted BIGINT, total BIGINT")


def _with_state(events: DataFrame, schema: str) -> DataFrame:
    from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

    values = schema.count(",") + 1

    def count(key: tuple[Any, ...], frames: Iterator[Any], state: GroupState) -> Iterator[Any]:
        import pandas as pd

        held = list(state.get) if state.exists else [0] * values
        for frame in frames:
            held[0] += len(frame)
            if values > 1:
                held[1] += int(frame["n"].sum())
        state.update(tuple(held))
        yield pd.DataFrame([(key[0], held[0], held[-1])], columns=["k", "rows", "last"])

    return events.groupBy("k").applyInPandasWithState(
        count, "k STRING, rows BIGINT, last BIGINT", schema, "append", GroupStateTimeout.NoTimeout
    )


def by_five(events: DataFrame) -> DataFrame:
    return events.selectExpr("k", "n % 5 AS r").dropDuplicates(["k", "r"])


def by_seven(events: DataFrame) -> DataFrame:
    return events.selectExpr("k", "n % 7 AS r").dropDuplicates(["k", "r"])


def all_rows(events: DataFrame) -> DataFrame:
    return events.select("k", "n", "at")


def different_rows(events: DataFrame) -> DataFrame:
    return events.select("k", "n", "at").dropDuplicates(["k", "n", "at"])


def within_watermark(events: DataFrame) -> DataFrame:
    return events.dropDuplicatesWithinWatermark(["k"]).select("k")


def within_watermark_by_both(events: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    return events.select("k", "at", f.expr("n % 2 AS r")).dropDuplicatesWithinWatermark(["k", "r"]).select("k", "r")


@dataclass(frozen=True)
class Change:
    """A change after which some state does not fit.

    Args:
        then: the operators of the first life; the last one's rows are recorded.
        now: those of the lives behind the change.
        cause: why they are refused without the permission to give state up.
        verdict: the verdict on the operator with it.
        uid: the operator.
        expected: the output of the lives behind the change, given the rows before and behind it; None for the result of
            the last operator's query over the rows behind the change, as a batch.
        final: only the last row of a key counts, as the output tells of each change.
        sources: their names.
        late: whether the rows behind the change have one that is late.
        repeats: whether they have some of the rows before it once more.
        delay: the delay of the watermark.
        whole: whether `expected` is the output of all lives.
    """

    then: tuple[Operator, ...]
    now: tuple[Operator, ...]
    cause: type[CannotRestore] = StateChanged
    verdict: str = "dropped"
    uid: str = OUT
    expected: Callable[[SparkSession, list[Row], list[Row]], Counter[Any]] | None = None
    final: bool = False
    sources: tuple[str, ...] = ("events",)
    late: bool = False
    repeats: bool = False
    delay: str = "0s"
    whole: bool = False


def out(query: str, *inputs: str, **fields: Any) -> tuple[Operator, ...]:
    return (sql(OUT, inputs or ["events"], query) | fields,)


def python(function: str, name: str = OUT) -> tuple[Operator, ...]:
    return ({"name": name, "inputs": ["events"], "python": f"{__name__}:{function}"},)


def of_python(spark: SparkSession, before: list[Row], behind: list[Row]) -> Counter[Any]:
    rows = Counter(row.k for row in behind)
    sums = {k: sum(row.n for row in behind if row.k == k) for k in rows}
    return Counter({(k, rows[k], sums[k]): 1 for k in rows})


COUNTS = "SELECT k, count(*) AS rows FROM events GROUP BY k, window(at, '1 hour')"
CHANGES: dict[str, Change] = {
    "a count by key": Change(
        out("SELECT k, count(*) AS rows, sum(n) AS total FROM events GROUP BY k", outputMode="update"),
        out("SELECT k, count(*) AS rows, sum(n % 7) AS total FROM events GROUP BY k", outputMode="update"),
        final=True,
    ),
    "windows": Change(out(windows("1 minute")), out(windows("30 seconds")), late=True),
    "deduplication": Change(
        python("by_five"),
        python("by_seven"),
        expected=lambda spark, before, behind: Counter({(f"k{key}", r): 1 for key in range(3) for r in range(7)}),
    ),
    "a join": Change(
        out(pairs("INNER"), "events", "others"),
        out(pairs("LEFT OUTER"), "events", "others"),
        sources=("events", "others"),
    ),
    "applyInPandasWithState": Change(python("counted"), python("counted_and_summed"), expected=of_python, final=True),
    "windows become sessions": Change(
        out(windows("1 minute")),
        out(
            "SELECT k, unix_seconds(session_window.start) AS start, count(*) AS rows FROM events "
            "GROUP BY k, session_window(at, '5 seconds')"
        ),
        cause=NewStateInOldChain,
    ),
    "duplicates within the watermark": Change(
        python("within_watermark"),
        python("within_watermark_by_both"),
        expected=lambda spark, before, behind: Counter({(f"k{key}", odd): 1 for key in range(3) for odd in (0, 1)}),
        delay="10m",
    ),
    "an output mode": Change(
        out(COUNTS),
        out(COUNTS, outputMode="update"),
        cause=OutputModeChanged,
        final=True,
        expected=lambda spark, before, behind: made_by(spark, CHANGES["windows"], behind, COUNTS),
    ),
    "another uid": Change(
        out(windows("1 minute")),
        out(windows("1 minute"), uid="other"),
        cause=NonRestoredState,
        verdict="new",
        uid="other",
    ),
    "state in a chain that had none": Change(
        python("all_rows"),
        python("by_seven"),
        cause=NewStateInOldChain,
        verdict="new",
        expected=lambda spark, before, behind: Counter({(f"k{key}", r): 1 for key in range(3) for r in range(7)}),
    ),
    "a limit in a chain that had no state": Change(
        out("SELECT k, n FROM events"),
        out("SELECT k FROM (SELECT 'all' AS k, n FROM events) LIMIT 30"),
        cause=NewStateInOldChain,
        verdict="new",
        expected=lambda spark, before, behind: Counter({("all",): 30}),
    ),
    "one of two operators with state": Change(
        (*python("different_rows", "few"), *out(windows("1 minute", "few"), "few")),
        (*python("different_rows", "few"), *out(windows("30 seconds", "few"), "few")),
        expected=lambda spark, before, behind: made_by(spark, CHANGES["windows"], behind, windows("30 seconds")),
        repeats=True,
        delay="20s",
    ),
    "new state before an operator with state": Change(
        (*python("all_rows", "few"), *out(windows("1 minute", "few"), "few")),
        (*python("different_rows", "few"), *out(windows("1 minute", "few"), "few")),
        cause=NewStateInOldChain,
        verdict="new",
        uid="few",
        expected=lambda spark, before, behind: made_by(
            spark, CHANGES["windows"], [*before, *behind], windows("1 minute")
        ),
        # Without a delay, a batch without rows removes all rows that are remembered.
        delay="20s",
        whole=True,
    ),
}


@dataclass
class Lives:
    """The lives of a job: one before the change, and those behind it."""

    spark: SparkSession
    directory: Path
    change: Change
    files: int = 0

    @property
    def location(self) -> str:
        return str(self.directory / "snapshots")

    def add(self, rows: list[Row]) -> None:
        for name in self.change.sources:
            add_rows(self.directory / name, self.files, rows)
        self.files += 1

    def life(self, operators: tuple[Operator, ...], *, allow: bool = False) -> Life:
        sources = [source(name, self.directory / name, delay=self.change.delay) for name in self.change.sources]
        rarely = {"interval": "1h", "numRetained": 100}
        spec = job(self.directory, sources, list(operators), [operators[-1]["name"]], checkpointing=rarely)
        if operators[-1].get("outputMode", "append") != "append":
            spec["sinks"][0]["delivery"] = "at-least-once"
        return Life(
            file=write_job(self.directory, spec),
            location=self.location,
            restore_from=RestoreFrom(allow_non_restored_state=allow),
            restarts=NEVER,
        )

    def check(self, operators: tuple[Operator, ...], *, allow: bool) -> Comparison:
        """Return what `streamjob check` says."""
        loaded = load_job(self.life(operators).file)
        with opened(loaded, "latest", self.location, "default", "job") as found:
            assert found is not None
            compared = compare(loaded.spec, plan(loaded.spec), found.manifest, found.uri, allow)
            if not compared.refusals:
                self.spark.conf.set("spark.sql.shuffle.partitions", compared.max_parallelism)
                scratch = self.directory / f"check-{allow}"
                compared = judged(self.spark, scratch, loaded, found, compared, allow, JobId("default", "job")).compared
            return compared

    def live(self, life: Life) -> None:
        """Run the job until a checkpoint has all rows that there are, and stop it."""
        with running(self.spark, life) as lives:
            lives.wait_for(lambda: lives.state is JobState.RUNNING, "the job to run")
            while not self._has_all():
                lives.checkpoint()
            assert lives.stop() is ExitCode.OK

    def _has_all(self) -> bool:
        newest = self._manifests()[-1:]
        positions = [each.position for manifest in newest for each in manifest.sources]
        return bool(newest) and positions == [{"files": self.files - 1}] * len(positions)

    def _manifests(self) -> list[Manifest]:
        while True:
            # The job that runs prunes its log.
            with contextlib.suppress(FileNotFoundError):
                return manifests(Path(self.location) / "default" / "job")

    def batch(self) -> int:
        """Return the last batch of the newest checkpoint."""
        (chain,) = self._manifests()[-1].chains
        return chain.batch

    def newest(self) -> str:
        manifest = self._manifests()[-1]
        return f"{self.location}/default/job/checkpoints/{manifest.epoch}-{manifest.id}"


def made_by(spark: SparkSession, change: Change, rows: list[Row], query: str) -> Counter[Any]:
    """Return the result of a query over rows, as a batch."""
    session = spark.newSession()
    for name in change.sources:
        frame = session.createDataFrame(
            [tuple(row.fields().values()) for row in rows], "k STRING, n BIGINT, at STRING, gate STRING"
        )
        frame.selectExpr("k", "n", "CAST(at AS TIMESTAMP) AS at", "gate").createOrReplaceTempView(name)
    return Counter(tuple(row) for row in session.sql(query).collect())


def without_end(rows: Counter[Any], *, final: bool) -> Counter[Any]:
    kept = {row: times for row, times in rows.items() if row[0] != "end"}
    if final:
        return Counter({max(row for row in kept if row[0] == key): 1 for key in {row[0] for row in kept}})
    return Counter(kept)


@pytest.mark.parametrize("name", thorough(CHANGES, "a count by key", "a join", "one of two operators with state"))
def test_an_operator_whose_state_does_not_fit_starts_empty_where_that_is_allowed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    change, power = CHANGES[name], Power(monkeypatch)
    lives = Lives(spark, tmp_path, change)
    before, behind = numbered(0, CUT), numbered(CUT, ROWS - CUT)
    lives.add(before)
    lives.live(lives.life(change.then))
    had = rows_of(output(tmp_path, change.then[-1]["name"]))

    refused, allowed = (lives.check(change.now, allow=allow) for allow in (False, True))
    assert type(refused.refusals[0]) is change.cause
    assert "--allow-non-restored-state" in str(refused.refusals[0].fix)
    assert allowed.refusals == ()
    said = {each.uid: each for each in allowed.findings}
    assert said[change.uid].verdict.value == change.verdict

    extra = [*([LATE] if change.late else []), *(before[-10:] if change.repeats else [])]
    lives.add([*behind[: MIDDLE - CUT], *extra])
    # Only a failure makes a start compare state that no graph and no form shows to be another.
    with running(spark, replace(lives.life(change.now), restarts=FAST)) as without, pytest.raises(change.cause):
        without.wait()
    with running(spark, lives.life(change.now, allow=True)) as killed:
        power.goes(Moment.RECORD, killed, lambda: None)
        wait_while_running(killed, lambda: killed.batch >= lives.batch() + 2, "a batch with the first rows")
        with contextlib.suppress(StateConflict):
            killed.control.trigger_checkpoint(TriggerId("first"))
        killed.wait()
    assert power.is_off
    power.comes_back()
    assert rows_of(output(tmp_path, change.now[-1]["name"])) == had, "nothing is published behind the cut"

    lives.live(lives.life(change.now, allow=True))
    place = find_snapshot(lives.newest())
    assert place is not None
    snapshot = read_snapshot(place)
    assert snapshot.manifest is not None
    assert verify([snapshot]).whole
    operators = choose_operators(snapshot.manifest, read_state_operators(snapshot), OperatorUid(change.uid))
    assert any(table.rows for table in read_tables(TablesRequest(snapshot=snapshot, operators=operators), spark))

    lives.add(behind[MIDDLE - CUT :])
    lives.add(END)
    lives.add(END)
    lives.live(lives.life(change.now))
    if change.expected is not None:
        expected = change.expected(spark, before, behind)
    else:
        expected = made_by(spark, change, behind, change.now[-1]["sql"])
    made = rows_of(output(tmp_path, change.now[-1]["name"]))
    if not change.whole:
        made -= had
    assert difference(expected, without_end(made, final=change.final)) == ""
