"""The query that has read all bounded input flushes by itself, and nothing of that shows in its snapshots."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.runtime.embedded import WITHIN, Life, life_in, running
from tests.jobs import files, job_file, sink, sql

from streamjob.errors import ExitCode
from streamjob.ids import BatchId, TriggerId
from streamjob.protocol.lifecycle import JobState
from streamjob.protocol.restarts import NEVER
from streamjob_runtime.chain.chain import Chain
from streamjob_runtime.chain.ending import flushes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FILES, SECONDS, WINDOW = 3, 30, 10


def write(directory: Path, number: int) -> None:
    """Write the file of half a minute: one row a second."""
    rows = [
        {"at": f"2026-01-01T00:{(number * SECONDS + each) // 60:02}:{(number * SECONDS + each) % 60:02}Z"}
        for each in range(SECONDS)
    ]
    (directory / "in").mkdir(exist_ok=True)
    (directory / "in" / f"{number}.json").write_text("\n".join(map(json.dumps, rows)))


def life(directory: Path, *, bounded: bool = True, with_channel: bool = False) -> Life:
    """Write a job that counts the rows of each window; return its life.

    Args:
        directory: with the input in `in`; the counts go to `out`.
        bounded: whether the input ends.
        with_channel: whether another operator reads the input, too, so that it passes through a channel.
    """
    counts = "SELECT window.start AS start, count(*) AS n FROM rows GROUP BY window(at, '10 seconds')"
    watermark = {"column": "at", "delay": "1s"}
    operators, sinks = [sql("counts", "rows", counts)], [sink("counts", "json", directory / "out")]
    if with_channel:
        operators.append(sql("copies", "rows", "SELECT at FROM rows"))
        sinks.append(sink("copies", "json", directory / "copies"))
    sources = [files("rows", directory / "in", "at TIMESTAMP", bounded=bounded, watermark=watermark)]
    how = {"maxParallelism": 2, "checkpointing": {"interval": "1h"}}
    return life_in(directory, job_file(*operators, sources=sources, sinks=sinks, **how))


def counts(directory: Path) -> dict[str, int]:
    """Return the published count of each window; each window has to be there once."""
    lines = [json.loads(line) for file in (directory / "out").glob("*.json") for line in file.read_text().splitlines()]
    found = {line["start"]: line["n"] for line in lines}
    assert len(found) == len(lines)
    return found


def is_complete(found: dict[str, int], files: int) -> bool:
    return list(found.values()) == [WINDOW] * (files * SECONDS // WINDOW)


@pytest.mark.parametrize("with_channel", [False, True], ids=["reading the source", "reading a channel"])
def test_the_query_that_has_read_all_input_flushes_by_itself(
    spark: SparkSession, tmp_path: Path, with_channel: bool
) -> None:
    for number in range(FILES):
        write(tmp_path, number)
    with running(spark, life(tmp_path, with_channel=with_channel)) as job:
        assert job.wait() is ExitCode.OK
        epoch = job.runner.epoch
    assert epoch is not None
    assert [len(chain.queries) for chain in epoch.chains.values()] == [1] * (3 if with_channel else 1)
    if not with_channel:
        assert [chain.last_emitted for chain in epoch.chains.values()] == [FILES], "the flush is the only batch behind"
    assert is_complete(counts(tmp_path), FILES)


def test_many_files_are_compared_behind_the_last_batch_with_data(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flushes, "_FEW_FILES", FILES - 1)
    for number in range(FILES):
        write(tmp_path, number)
    with running(spark, life(tmp_path)) as job:
        assert job.wait() is ExitCode.OK
        epoch = job.runner.epoch
    assert epoch is not None
    (chain,) = epoch.chains.values()
    assert (len(chain.queries), chain.last_emitted) == (1, FILES + 1), "one batch without data comes before the flush"
    assert is_complete(counts(tmp_path), FILES)


@pytest.fixture
def flush_fails_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """The input, and two events: a flush has begun, and it may fail; later ones succeed."""
    for number in range(FILES):
        write(tmp_path, number)
    begun, over = threading.Event(), threading.Event()
    process = Chain._process_batch

    def fail_once(chain: Chain, frame: DataFrame, batch: BatchId) -> None:
        if chain.is_followed_by_flush(BatchId(batch - 1)) and not over.is_set():
            begun.set()
            assert over.wait(WITHIN)
            raise RuntimeError("the flush fails")
        process(chain, frame, batch)

    monkeypatch.setattr(Chain, "_process_batch", fail_once)
    return begun, over


def test_a_flush_that_fails_behind_a_checkpoint_is_repeated_behind_the_restart(
    spark: SparkSession, tmp_path: Path, flush_fails_once: tuple[threading.Event, threading.Event]
) -> None:
    begun, over = flush_fails_once
    with running(spark, life(tmp_path)) as job:
        job.wait_for(begun.is_set, "the flush")
        job.checkpoint()
        assert not is_complete(counts(tmp_path), FILES)
        over.set()
        assert job.wait() is ExitCode.OK
    assert is_complete(counts(tmp_path), FILES)


def test_a_checkpoint_before_the_flush_has_the_event_time_of_the_input(
    spark: SparkSession, tmp_path: Path, flush_fails_once: tuple[threading.Event, threading.Event]
) -> None:
    """Otherwise later rows would be late if the source has no end any more."""
    begun, over = flush_fails_once
    with running(spark, replace(life(tmp_path), restarts=NEVER)) as job:
        job.wait_for(begun.is_set, "the flush")
        job.checkpoint()
        over.set()
        assert job.wait() is ExitCode.FAILED
    write(tmp_path, FILES)
    with running(spark, life(tmp_path, bounded=False)) as job:
        wanted = (FILES + 1) * SECONDS // WINDOW - 1
        job.wait_for(lambda: job.state is JobState.RUNNING, "the chain")

        def are_published() -> bool:
            job.checkpoint()
            return len(counts(tmp_path)) == wanted

        job.wait_for(are_published, "the windows of later rows")
        job.control.stop(savepoint=True, location=None, drain=True, trigger_id=TriggerId("drain"))
        assert job.wait() is ExitCode.OK
    assert is_complete(counts(tmp_path), FILES + 1)
