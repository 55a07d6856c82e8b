"""A chain runs batches again exactly as they ran before, and then goes on by itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as f
from tests.integration.core import core
from tests.integration.spark_checkpoint.test_restart_from_a_cut import apply_in_pandas_with_state, transform_with_state

from streamjob.errors import CannotRestore, JobFailed
from streamjob.ids import NO_BATCH, BatchId, ChainUid, CheckpointId, OperatorUid
from streamjob.job.planning.plan import ChainPlan
from streamjob.protocol.coordination.messages import ChainStatus
from streamjob.protocol.emissions.cuts import Emissions
from streamjob_runtime.chain.chain import Chain, ChainListener, ChainStart
from streamjob_runtime.chain.dataflow import Dataflow
from streamjob_runtime.chain.emissions.emission_lock import EmissionLock
from streamjob_runtime.chain.emissions.outputs import ChainOutput, Written
from streamjob_runtime.pinning.batches import PinnedBatch
from streamjob_runtime.spark.checkpoint_dir.forced_batch import is_flush
from streamjob_runtime.spark.checkpoint_dir.hold import Hold, hold

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from tests.integration.spark_checkpoint.conftest import Lab

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(180)]

UID = ChainUid("chain")
CUT = BatchId(2)
LAST = BatchId(7)
WITHIN = 120.0


@dataclass
class Rates:
    """Rows whose values and event times follow from their positions, read in some number of tasks.

    It is what the queries of other tests take for their lab.
    """

    spark: SparkSession
    tasks: int

    def input(self) -> DataFrame:
        rows = (
            self.spark.readStream.format("rate-micro-batch")
            .option("rowsPerBatch", 40)
            .option("numPartitions", self.tasks)
            .option("startTimestamp", 1_700_000_000_000)
            .option("advanceMillisPerBatch", 4000)
            .load()
        )
        late = f.expr("timestamp - make_interval(0, 0, 0, 0, 0, 0, pmod(value * 7, 9))")
        return rows.select(
            f.expr("concat('k', pmod(value * 13, 7))").alias("k"), late.alias("ts"), f.expr("value div 2").alias("v")
        ).withWatermark("ts", "5 seconds")


def stateless(rates: Rates) -> DataFrame:
    return rates.input().where("v % 3 <> 0").select("k", "v", f.current_timestamp().alias("now"), f.current_date())


def windows(rates: Rates) -> DataFrame:
    grouped = rates.input().groupBy(f.window("ts", "10 seconds"), "k")
    return grouped.agg(f.count("*"), f.sum("v"), f.min("v"), f.sort_array(f.collect_list("v")))


def left_outer_join(rates: Rates) -> DataFrame:
    right = rates.input().where("v % 5 = 0").selectExpr("k k2", "ts ts2", "v v2")
    near = f.expr("k = k2 AND v = v2 AND ts2 BETWEEN ts - INTERVAL 8 seconds AND ts + INTERVAL 8 seconds")
    return rates.input().join(right, near, "leftOuter").select("k", "ts", "v", "v2")


def keys_once(rates: Rates) -> DataFrame:
    return rates.input().select("v", "ts").dropDuplicatesWithinWatermark(["v"]).select("v")


def rows_in_their_order(rates: Rates) -> DataFrame:
    return rates.input().groupBy(f.window("ts", "10 seconds"), "k").agg(f.collect_list("v"))


KINDS: dict[str, Callable[[Any], DataFrame]] = {
    "stateless": stateless,
    "windows": windows,
    "left outer join": left_outer_join,
    "keys once": keys_once,
    "applyInPandasWithState": apply_in_pandas_with_state,
    "transformWithState": transform_with_state,
}


@dataclass
class Run(ChainListener):
    """The batches of one run of a chain, by number, and its failure."""

    rows: dict[int, list[tuple[str, ...]]] = field(default_factory=dict)
    entries: dict[int, str] = field(default_factory=dict)
    replaying: dict[int, tuple[int, int] | None] = field(default_factory=dict)
    held: Hold | None = None
    failure: str = ""
    ended: threading.Event = field(default_factory=threading.Event)
    checkpoint: Callable[[], None] = lambda: None

    def pinned(self, behind: BatchId, upto: BatchId) -> tuple[PinnedBatch, ...]:
        return tuple(PinnedBatch(BatchId(n), self.entries[n]) for n in range(behind + 1, upto + 1))

    def status_changed(self, chain: ChainUid, status: ChainStatus, message: str) -> None:
        if status is ChainStatus.FAILED:
            self.failure = message
            self.ended.set()

    def cannot_continue(self, chain: ChainUid, error: CannotRestore) -> None:
        self.status_changed(chain, ChainStatus.FAILED, str(error))

    def has_output(self) -> None: ...

    def wants_checkpoint(self, why: str) -> None:
        self.checkpoint()


def run(
    lab: Lab,
    frame: DataFrame,
    start: ChainStart,
    *,
    sources: int = 1,
    hold_at: BatchId | None = None,
    crash_in: BatchId | None = None,
    upto: BatchId = LAST,
    drain: bool = False,
) -> Run:
    """Run a chain until a batch has ended, or until it fails; a drain is ordered before its first batch."""
    result = Run()
    emissions = Emissions([UID])
    if start.batch != NO_BATCH:
        emissions.restore(UID, start.batch)
    emission = EmissionLock(emissions)

    def checkpoint() -> None:
        emission.trigger(CheckpointId(1), seal=False, unaligned=False)
        emission.complete(CheckpointId(1))

    if not drain:
        # While a job is drained, no checkpoint begins.
        result.checkpoint = checkpoint

    class Rows(ChainOutput):
        def write(self, frame: DataFrame, batch: BatchId, begin: Callable[[], None] = lambda: None) -> Written:
            result.replaying[batch] = chain.replaying
            if hold_at is not None and batch == hold_at + 1:
                result.held = hold(start.checkpoint, hold_at, lab.directory("hold"))
            if batch == crash_in:
                raise JobFailed("the chain crashes here")
            found = sorted(tuple(str(value) for value in row) for row in frame.collect())
            if batch <= upto:
                result.rows[batch] = found
                result.entries[batch] = (start.checkpoint / "offsets" / str(batch)).read_text()
            if batch > upto:
                result.ended.set()
            return Written()

    names = tuple(OperatorUid(f"source-{n}") for n in range(sources))
    chain = Chain(
        plan=ChainPlan(uid=UID, sources=(), operators=(), sinks=(), output=UID, output_mode="append"),
        spark=lab.spark,
        dataflow=Dataflow(frame, "append", names, tuple(range(sources)), {}, {}),
        output=Rows({}),
        emission=emission,
        start=start,
        clock=time.time,
        listener=result,
    )
    if drain:
        chain.drain()
    chain.start()
    try:
        assert result.ended.wait(WITHIN), "the chain has neither reached the batch nor failed"
    finally:
        assert chain.stop(WITHIN)
    return result


@pytest.fixture(autouse=True)
def three_partitions(lab: Lab) -> Iterator[None]:
    before = lab.spark.conf.get("spark.sql.shuffle.partitions")
    lab.spark.conf.set("spark.sql.shuffle.partitions", 3)
    yield
    lab.spark.conf.set("spark.sql.shuffle.partitions", str(before))


def fresh(lab: Lab) -> ChainStart:
    checkpoint = lab.directory()
    return ChainStart(checkpoint, lab.location(checkpoint))


def restored(lab: Lab, held: Hold | None, pinned: Sequence[PinnedBatch]) -> ChainStart:
    assert held is not None
    checkpoint: Path = lab.restore(held)
    return ChainStart(checkpoint, lab.location(checkpoint), CUT, pinned=tuple(pinned))


@pytest.mark.parametrize("name", core(KINDS, "windows"))
def test_pinned_batches_give_the_same_rows_in_other_tasks_and_the_chain_goes_on(lab: Lab, name: str) -> None:
    make = KINDS[name]
    sources = 2 if name == "left outer join" else 1
    live = run(lab, make(Rates(lab.spark, 4)), fresh(lab), sources=sources, hold_at=CUT)
    assert live.failure == ""
    assert any(live.rows[n] for n in range(CUT + 1, LAST))

    pinned = live.pinned(CUT, BatchId(LAST - 1))
    again = run(lab, make(Rates(lab.spark, 3)), restored(lab, live.held, pinned), sources=sources)

    assert again.failure == ""
    assert again.rows.keys() == set(range(CUT + 1, LAST + 1))
    assert {n: again.rows[n] for n in range(CUT + 1, LAST)} == {n: live.rows[n] for n in range(CUT + 1, LAST)}
    count = LAST - 1 - CUT
    assert again.replaying == {CUT + 1 + n: (n, count) for n in range(count)} | {LAST: None, LAST + 1: None}


def test_rows_that_depend_on_their_order_show_that_they_do(lab: Lab) -> None:
    """Otherwise the test above would prove nothing."""
    live = run(lab, rows_in_their_order(Rates(lab.spark, 4)), fresh(lab), hold_at=CUT)

    again = run(
        lab, rows_in_their_order(Rates(lab.spark, 3)), restored(lab, live.held, live.pinned(CUT, BatchId(LAST - 1)))
    )

    assert {n: rows for n, rows in again.rows.items() if n < LAST} != {
        n: rows for n, rows in live.rows.items() if CUT < n < LAST
    }
    assert {n: len(rows) for n, rows in again.rows.items()} == {n: len(live.rows[n]) for n in again.rows}


def test_a_crash_amid_a_replay_is_followed_by_the_same_replay(lab: Lab) -> None:
    live = run(lab, windows(Rates(lab.spark, 4)), fresh(lab), hold_at=CUT)
    pinned = live.pinned(CUT, LAST)

    crashed = run(lab, windows(Rates(lab.spark, 4)), restored(lab, live.held, pinned), crash_in=BatchId(CUT + 3))
    again = run(lab, windows(Rates(lab.spark, 4)), restored(lab, live.held, pinned))

    assert "the chain crashes here" in crashed.failure
    assert crashed.rows == {n: live.rows[n] for n in (CUT + 1, CUT + 2)}
    assert again.rows == {n: rows for n, rows in live.rows.items() if n > CUT}


def test_a_chain_that_is_drained_runs_all_pinned_batches_before_its_flush(lab: Lab) -> None:
    live = run(lab, windows(Rates(lab.spark, 4)), fresh(lab), hold_at=CUT)
    start = restored(lab, live.held, live.pinned(CUT, LAST))

    again = run(lab, windows(Rates(lab.spark, 4)), start, drain=True)

    assert again.rows == {n: rows for n, rows in live.rows.items() if n > CUT}
    assert is_flush(start.checkpoint, BatchId(LAST + 1))


def test_a_planned_batch_that_is_another_one_does_not_run(lab: Lab) -> None:
    live = run(lab, windows(Rates(lab.spark, 4)), fresh(lab), hold_at=CUT)
    start = restored(lab, live.held, live.pinned(CUT, LAST))
    (start.checkpoint / "offsets" / str(CUT + 1)).write_text(live.entries[CUT + 2])

    again = run(lab, windows(Rates(lab.spark, 4)), start)

    assert again.rows == {}
    assert f"Chain 'chain' cannot run batch {CUT + 1} as it ran before: Spark has planned it as" in again.failure


def test_a_batch_that_its_sources_cannot_give_again_fails_by_name(lab: Lab) -> None:
    live = run(lab, windows(Rates(lab.spark, 4)), fresh(lab), hold_at=CUT)
    pinned = list(live.pinned(CUT, LAST))
    version, metadata, _ = pinned[1].entry.split("\n")
    pinned[1] = PinnedBatch(pinned[1].batch, f'{version}\n{metadata}\n{{"offset":0,"timestamp":0}}')

    again = run(lab, windows(Rates(lab.spark, 4)), restored(lab, live.held, pinned))

    assert again.rows == {CUT + 1: live.rows[CUT + 1]}
    assert f"Chain 'chain' fails in batch {CUT + 2}, which it runs as it ran before: " in again.failure
