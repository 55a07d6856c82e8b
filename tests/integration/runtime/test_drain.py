"""Draining: everything that waits for event time fires, after whole batches, and the job can be continued.

In the spirit of Flink's SavepointITCase.testStopWithSavepointWithDrainCallsFinishBeforeSnapshotState.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.runtime.embedded import EmbeddedJob, Life, life_in, running
from tests.integration.runtime.graphs import Row, add_rows, job, manifests, numbered, output, python, rows_of, source
from tests.jobs import sql

from streamjob.errors import ExitCode
from streamjob.ids import OperatorUid, TriggerId
from streamjob.protocol.lifecycle import JobState
from streamjob.snapshot.manifest import Manifest
from streamjob_runtime.chain.emissions.outputs import Outputs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

COUNTS = "SELECT k, count(*) AS n FROM {} GROUP BY k, window(at, '1 minute')"
PLAIN = "SELECT k, n, at FROM {}"


def life(directory: Path, operators: list[dict[str, Any]], outputs: list[str], **changes: Any) -> Life:
    spec = job(directory, [source("rows", directory / "rows")], operators, outputs, **changes)
    spec["checkpointing"] = {"interval": "1h"}
    return life_in(directory, spec)


def counted(rows: list[Row]) -> Counter[Any]:
    windows = Counter((row.k, row.second // 60) for row in rows)
    return Counter((key, count) for (key, _), count in windows.items())


def drain(running_job: EmbeddedJob, *, savepoint: bool = True) -> Manifest:
    """Drain a job and let it end; return its last snapshot."""
    running_job.control.stop(savepoint=savepoint, location=None, drain=True, trigger_id=TriggerId("drain"))
    assert running_job.wait() is ExitCode.OK
    assert running_job.state is JobState.STOPPED
    runner = running_job.runner
    last = manifests(runner.job.loaded.directory.parent / "snapshots" / "default" / "job")[-1]
    assert last.drained
    return last


@pytest.mark.parametrize("savepoint", [True, False])
def test_open_windows_fire_before_the_cut_and_event_time_goes_on_behind_it(
    spark: SparkSession, tmp_path: Path, savepoint: bool
) -> None:
    rows = numbered(0, 200)
    one = life(tmp_path, [sql("counts", ["rows"], COUNTS.format("rows"))], ["counts"])
    add_rows(tmp_path / "rows", 0, rows[:100])
    add_rows(tmp_path / "rows", 1, rows[100:])
    with running(spark, one) as drained:
        drained.wait_for_batches(2)
        manifest = drain(drained, savepoint=savepoint)

    assert rows_of(output(tmp_path, "counts")) == counted(rows)
    assert not any(operator.finished for operator in manifest.operators)

    later = [Row("k0", 1, 1000), Row("k1", 1, 1001), Row("k0", 2, 1002)]
    late = Row("k2", 1, 100)
    add_rows(tmp_path / "rows", 2, [*later, late])
    with running(spark, one) as resumed:
        read(resumed, "counts", 4)

        def dropped() -> dict[OperatorUid, int]:
            resumed.control.observe()
            (chain,) = resumed.control.job().chains
            return chain.records_dropped_late

        resumed.wait_for(lambda: sum(dropped().values()) > 0, "a row that is dropped as late")
        assert dropped() == {"counts": 1}
        drain(resumed)
    assert rows_of(output(tmp_path, "counts")) - counted(rows) == counted(later)


@pytest.mark.core
def test_a_graph_drains_from_its_sources_on_and_reads_on_from_there(spark: SparkSession, tmp_path: Path) -> None:
    operators = [
        sql("first", ["rows"], PLAIN.format("rows"), chain=False),
        sql("counts", ["first"], COUNTS.format("first"), chain=False),
        sql("copies", ["first"], "SELECT k, n FROM first", chain=False),
    ]
    graph = life(tmp_path, operators, ["counts", "copies"])
    rows = numbered(0, 200)
    add_rows(tmp_path / "rows", 0, rows[:100])
    with running(spark, graph) as drained:
        read(drained, "rows", 100)
        manifest = drain(drained)
    assert rows_of(output(tmp_path, "counts")) == counted(rows[:100])
    assert [channel.ended for channel in manifest.channels] == [False] * len(manifest.channels)
    assert not any(channel.entries for channel in manifest.channels)

    add_rows(tmp_path / "rows", 1, rows[100:])
    with running(spark, replace(graph)) as resumed:
        read(resumed, "first", 100)
        drain(resumed)
    assert rows_of(output(tmp_path, "copies")) == Counter((row.k, row.n) for row in rows)
    # The window that was open at the drain counts what came before it and what came after apart.
    assert rows_of(output(tmp_path, "counts")) == counted(rows[:100]) + counted(rows[100:])


def read(job: EmbeddedJob, chain: str, rows: int) -> None:
    """Wait until a chain has read that many rows since the job's start."""

    def has_read() -> bool:
        chains = job.runner.epoch.chains if job.runner.epoch and job.state is JobState.RUNNING else {}
        queries = [query for uid, each in chains.items() if uid == chain for query in each.queries]
        return sum(int(report["numInputRows"]) for query in queries for report in query.recentProgress) >= rows

    job.wait_for(has_read, f"{rows} rows read by {chain}")


def test_a_drain_does_not_wait_for_the_source_nor_lose_the_batch_that_it_refuses(
    spark: SparkSession, tmp_path: Path
) -> None:
    gate = tmp_path / "open"
    operators = [fused("gated", "rows"), sql("counts", ["gated"], COUNTS.format("gated"), chain=False)]
    endless = life(tmp_path, operators, ["gated", "counts"])
    rows = [replace(row, gate=str(gate) if row.second >= 40 else "") for row in numbered(0, 120)]
    for number in range(3):
        add_rows(tmp_path / "rows", number, rows[number * 40 : (number + 1) * 40])
    with running(spark, endless) as drained:
        drained.wait_for(lambda: batches(drained, "gated") >= 0, "the first batch")
        drained.control.stop(savepoint=True, location=None, drain=True, trigger_id=TriggerId("drain"))
        drained.wait_for(lambda: drained.state is JobState.STOPPING, "the drain to begin")
        gate.touch()
        assert drained.wait() is ExitCode.OK
    first = rows_of(output(tmp_path, "gated"))
    covered = first.total()
    assert 40 <= covered < 120, "the batches that had not begun are left"
    assert rows_of(output(tmp_path, "counts")) == counted(rows[:covered])

    with running(spark, endless) as resumed:
        read(resumed, "gated", 120 - covered)
        drain(resumed)
    assert Counter((row[0], row[1]) for row in rows_of(output(tmp_path, "gated")).elements()) == Counter(
        (row.k, row.n) for row in rows
    )


def fused(name: str, source: str) -> dict[str, Any]:
    """Return the gated operator in one chain with its source, which is read no further than it comes."""
    return {**python(name, source, "gated"), "chain": True}


def batches(job: EmbeddedJob, chain: str) -> int:
    return max((each.batch for each in job.control.job().chains if each.uid == chain), default=-1)


def test_a_bounded_source_that_has_not_ended_is_read_on_and_one_that_has_stays_finished(
    spark: SparkSession, tmp_path: Path
) -> None:
    gate = tmp_path / "open"
    rows = numbered(0, 60)
    for number in range(2):
        add_rows(tmp_path / "done", number, rows[number * 30 : (number + 1) * 30])
    for number in range(3):
        part = rows[number * 20 : (number + 1) * 20]
        add_rows(tmp_path / "half", number, [replace(row, gate=str(gate) if number else "") for row in part])
    sources = [source(name, tmp_path / name, bounded=True) for name in ("done", "half")]
    operators = [
        sql("all", ["done"], "SELECT k, n FROM done", chain=False),
        fused("gated", "half"),
    ]
    spec = job(tmp_path, sources, operators, ["all", "gated"], checkpointing={"interval": "1h"})
    one = life_in(tmp_path, spec)
    with running(spark, one) as drained:
        drained.wait_for(lambda: batches(drained, "gated") >= 0, "the first batch")
        drained.wait_for(
            lambda: all(each.finished for each in drained.control.job().chains if each.uid == "all"), "the first to end"
        )
        drained.control.stop(savepoint=True, location=None, drain=True, trigger_id=TriggerId("drain"))
        drained.wait_for(lambda: drained.state is JobState.STOPPING, "the drain to begin")
        gate.touch()
        assert drained.wait() is ExitCode.OK
        assert drained.state is JobState.STOPPED
    finished = {
        operator.uid
        for operator in manifests(tmp_path / "snapshots" / "default" / "job")[-1].operators
        if operator.finished
    }
    assert "all" in finished
    assert "gated" not in finished

    with running(spark, one) as resumed:
        assert resumed.wait() is ExitCode.OK
        assert resumed.state is JobState.FINISHED
    expected = Counter((row.k, row.n) for row in rows)
    assert rows_of(output(tmp_path, "all")) == expected
    assert Counter((row[0], row[1]) for row in rows_of(output(tmp_path, "gated")).elements()) == expected


def test_a_drained_snapshot_that_is_recorded_ends_the_job_though_publishing_fails_at_first(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = life(tmp_path, [sql("counts", ["rows"], COUNTS.format("rows"))], ["counts"])
    rows = numbered(0, 100)
    add_rows(tmp_path / "rows", 0, rows)
    commit, failures = Outputs.commit, [OSError("the disk is away")]

    def fail_once(self: Outputs, *arguments: Any) -> None:
        if failures:
            raise failures.pop()
        commit(self, *arguments)

    with running(spark, one) as drained:
        drained.wait_for_batches(1)
        monkeypatch.setattr(Outputs, "commit", fail_once)
        drain(drained, savepoint=False)
        assert drained.runner.coordination.lifecycle.restarts == 1
    assert rows_of(output(tmp_path, "counts")) == counted(rows)
