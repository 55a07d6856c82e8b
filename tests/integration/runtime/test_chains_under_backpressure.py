"""Chains with full channels: rows in flight are restored once, a failure restarts all, and waiting has an end."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.runtime.embedded import EmbeddedJob, Life, life_in, running
from tests.integration.runtime.graphs import (
    Batch,
    Row,
    add_rows,
    difference,
    disorder,
    in_flight,
    job,
    manifests,
    numbered,
    output,
    python,
    rows_of,
    segments,
    source,
)
from tests.jobs import sql

from streamjob.errors import ExitCode
from streamjob.ids import ChainUid, TriggerId
from streamjob.protocol.lifecycle import JobState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROWS = 20
"""Rows in a file, and in a batch of what reads channels."""

OFTEN = ("checkpointing.interval=300ms",)


def gate(directory: Path, number: int) -> Path:
    """Return the file without which no reader gets past an input file."""
    return directory / f"gate-{number}"


def add_gated(directory: Path, *numbers: int) -> None:
    for number in numbers:
        add_rows(directory / "in", number, numbered(number * ROWS, ROWS, str(gate(directory, number))))


def life(directory: Path, sources: list[dict[str, Any]], operators: list[dict[str, Any]], **changes: Any) -> Life:
    """Return a life of a job that records what its last operator makes."""
    channels = {"maxBatchRecords": ROWS, **changes.pop("channels", {})}
    checkpointing = {"interval": "1h", "numRetained": 100, **changes}
    outputs = [operators[-1]["name"]]
    described = job(directory, sources, operators, outputs, channels=channels, checkpointing=checkpointing)
    return life_in(directory, described)


def waiting(running_job: EmbeddedJob, producer: str, consumer: str) -> int:
    """Return how many records wait in a channel."""
    emission = running_job.runner.epoch.emission if running_job.runner.epoch else None
    return emission.backlog(ChainUid(producer), ChainUid(consumer)).records if emission else 0


def batch_of(running_job: EmbeddedJob, chain: str) -> int:
    chains = running_job.runner.epoch.chains if running_job.runner.epoch else {}
    found = chains.get(ChainUid(chain))
    return found.last_emitted if found else -1


def all_read(running_job: EmbeddedJob) -> bool:
    """Whether every chain has emitted a batch, and nothing waits between them."""
    plan = running_job.runner.job.plan
    begun = all(batch_of(running_job, chain.uid) >= 0 for chain in plan.chains)
    return begun and not any(waiting(running_job, channel.source, channel.target) for channel in plan.channels)


def wait_until_it_runs(running_job: EmbeddedJob) -> None:
    running_job.wait_for(lambda: running_job.state is JobState.RUNNING, "all chains")


def wrong(rows: list[Row], batches: list[Batch]) -> tuple[str, list[str]]:
    """Return what is lost or surplus, and what is out of order."""
    keyed = [(batch, [row[:2] for row in each]) for batch, each in batches]
    return difference(Counter((row.k, row.n) for row in rows), rows_of(keyed)), disorder(keyed)


@pytest.mark.core
def test_rows_in_flight_are_stored_once_and_after_each_restore_come_once_and_first(
    spark: SparkSession, tmp_path: Path
) -> None:
    add_gated(tmp_path, 0, 1, 2, 3)
    sources, operators = [source("events", tmp_path / "in")], [python("gate", "events", "gated")]
    unaligned = life(tmp_path, sources, operators, mode="unaligned")
    root = tmp_path / "snapshots" / "default" / "job"

    gate(tmp_path, 0).touch()
    with running(spark, unaligned) as first:
        first.wait_for(lambda: batch_of(first, "events") >= 3, "all files in the stream")
        first.wait_for(lambda: waiting(first, "events", "gate") == 3 * ROWS, "a reader that got one of them")
        wait_until_it_runs(first)
        first.checkpoint()
        first.checkpoint()
        # The reader's current batch stands still: a stop that waited for it would never end.
        assert first.stop() is ExitCode.OK
    taken = manifests(root)
    assert len(taken) == 3
    assert all(manifest.unaligned for manifest in taken)
    assert [in_flight(manifest) for manifest in taken] == [3 * ROWS] * 3
    assert segments(taken[0]) == segments(taken[1]) == segments(taken[2])

    (read_before,) = (chain.batch for chain in taken[-1].chains if chain.uid == "events")
    add_gated(tmp_path, 4)
    gate(tmp_path, 1).touch()
    with running(spark, unaligned) as second:
        second.wait_for(lambda: batch_of(second, "events") > read_before, "the new file in the stream")
        second.wait_for(lambda: waiting(second, "events", "gate") == 3 * ROWS, "a reader that got one more")
        wait_until_it_runs(second)
        second.checkpoint()
        assert second.stop() is ExitCode.OK
    later = manifests(root)[-1]
    assert in_flight(later) == 3 * ROWS
    still = segments(later).items() & segments(taken[0]).items()
    assert sum(records for _, records in still) == 2 * ROWS

    for number in range(2, 5):
        gate(tmp_path, number).touch()
    with running(spark, replace(unaligned, overrides=OFTEN)) as third:
        third.wait_for(lambda: rows_of(output(tmp_path, "gate")).total() >= 5 * ROWS, "all rows")
        assert third.stop() is ExitCode.OK

    assert wrong(numbered(0, 5 * ROWS), output(tmp_path, "gate")) == ("", [])


def test_a_stop_with_full_channels_ends_behind_a_last_aligned_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    files = 10
    for number in range(files):
        add_rows(tmp_path / "in", number, numbered(number * ROWS, ROWS))
    sources, operators = [source("events", tmp_path / "in")], [python("slow", "events", "slowed")]
    slow = life(tmp_path, sources, operators, channels={"capacityRecords": 3 * ROWS})
    root = tmp_path / "snapshots" / "default" / "job"

    with running(spark, slow) as first:
        first.wait_for(lambda: batch_of(first, "slow") >= 0 and waiting(first, "events", "slow") >= 3 * ROWS, "full")
        assert first.stop() is ExitCode.OK
    last = manifests(root)[-1]
    assert first.state is JobState.STOPPED
    assert (last.unaligned, in_flight(last)) == (False, 0)
    assert 0 < rows_of(output(tmp_path, "slow")).total() < files * ROWS
    assert wrong(numbered(0, rows_of(output(tmp_path, "slow")).total()), output(tmp_path, "slow")) == ("", [])

    with running(spark, replace(slow, overrides=OFTEN)) as second:
        second.wait_for(lambda: waiting(second, "events", "slow") > 0, "rows in the channel")
        second.wait_for(lambda: rows_of(output(tmp_path, "slow")).total() >= files * ROWS, "all rows")
        assert second.stop() is ExitCode.OK

    assert wrong(numbered(0, files * ROWS), output(tmp_path, "slow")) == ("", [])


@pytest.mark.parametrize("mode", ["aligned", "unaligned"])
def test_an_operator_that_fails_in_the_middle_restarts_all_chains_from_the_last_checkpoint(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    marker = tmp_path / "failed"
    for number in range(2):
        add_rows(tmp_path / "in", number, numbered(number * ROWS, ROWS))
    operators = [
        python("checked", "events", "fragile"),
        sql("last", ["checked"], "SELECT k, n FROM checked", chain=False),
    ]
    # All of the first epoch are compared with, however many a slow machine takes in the second.
    kept = {"mode": mode, "interval": "200ms", "numRetained": 10_000}
    fragile = life(tmp_path, [source("events", tmp_path / "in")], operators, **kept)
    root = tmp_path / "snapshots" / "default" / "job"

    with running(spark, fragile) as running_job:
        running_job.wait_for(lambda: rows_of(output(tmp_path, "last")).total() == 2 * ROWS, "rows before the failure")
        add_rows(tmp_path / "in", 2, numbered(2 * ROWS, ROWS, str(marker)))
        add_rows(tmp_path / "in", 3, numbered(3 * ROWS, ROWS))
        running_job.wait_for(lambda: rows_of(output(tmp_path, "last")).total() >= 4 * ROWS, "rows behind the failure")
        view = running_job.control.job()
        assert running_job.stop() is ExitCode.OK

    assert marker.exists()
    assert view.restarts == 1
    assert "the goods are on fire" in (view.failure or "")
    assert view.restored_from is not None
    before = [manifest for manifest in manifests(root) if manifest.epoch == 1]
    assert view.restored_from.id == before[-1].id
    assert {chain.uid for chain in before[-1].chains} == {"events", "checked", "last"}
    assert wrong(numbered(0, 4 * ROWS), output(tmp_path, "last")) == ("", [])


def test_a_checkpoint_that_expires_under_backpressure_is_counted_and_lets_go_of_the_inputs_it_held(
    spark: SparkSession, tmp_path: Path
) -> None:
    for name in ("left", "right"):
        add_rows(tmp_path / name, 0, numbered(0, ROWS))
    closed = gate(tmp_path, 1)
    operators = [
        python("gated", "left", "gated"),
        sql(
            "both",
            ["gated", "right"],
            "SELECT 'left' AS side, k, n FROM gated UNION ALL SELECT 'right', k, n FROM right",
            chain=False,
        ),
    ]
    sources = [source(name, tmp_path / name) for name in ("left", "right")]
    # Long enough for rows to reach the channel after the barrier, and to be read there if nothing held them.
    impatient = life(tmp_path, sources, operators, timeout="6s")

    with running(spark, impatient) as running_job:
        wait_until_it_runs(running_job)
        running_job.checkpoint()
        running_job.wait_for(lambda: all_read(running_job), "readers that have read all")
        add_rows(tmp_path / "left", 1, numbered(ROWS, ROWS, str(closed)))
        running_job.wait_for(lambda: waiting(running_job, "left", "gated") == ROWS, "a reader that waits at the gate")
        running_job.control.trigger_checkpoint(TriggerId("under-backpressure"))
        running_job.wait_for(lambda: acknowledged(running_job) == 2, "both sources' part of the checkpoint")
        add_rows(tmp_path / "right", 1, numbered(ROWS, ROWS))
        running_job.wait_for(lambda: waiting(running_job, "right", "both") == ROWS, "rows behind a barrier")

        def expired() -> bool:
            held = waiting(running_job, "right", "both")
            if running_job.failed:
                return True
            assert held == ROWS
            return False

        running_job.wait_for(expired, "a checkpoint that fails")
        running_job.wait_for(lambda: waiting(running_job, "right", "both") == 0, "rows that are let go of")
        assert not closed.exists()
        counts = running_job.control.checkpoints().counts
        assert (counts.failed, counts.in_progress, running_job.state) == (1, 0, JobState.RUNNING)
        closed.touch()
        running_job.checkpoint()
        assert running_job.control.job().restarts == 0
        running_job.stop()

    found = output(tmp_path, "both")
    assert rows_of(found) == Counter(
        (side, row.k, row.n) for side in ("left", "right") for row in numbered(0, 2 * ROWS)
    )
    assert disorder(found) == []


def acknowledged(running_job: EmbeddedJob) -> int:
    """Return how many chains have done their part of the latest checkpoint."""
    return running_job.control.checkpoints().history[0].num_acknowledged_subtasks
