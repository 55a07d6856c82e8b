"""Event time across restarts: what was due before is due after, and a silent input stays where it was."""

from __future__ import annotations

import importlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.core import core
from tests.integration.runtime.embedded import life_in, running
from tests.integration.runtime.purchases import add_file
from tests.jobs import job_file, sink, source, sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark]

SCHEMA = "k STRING, at TIMESTAMP"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

GATED_SINK = """
import threading

from streamjob.sink import Staged

committed = []
staged = []
gate = threading.Event()


class Sink:
    '''Keeps published rows in memory; batches behind the first wait at the gate.'''

    def open(self, context):
        self.context = context

    def stage(self, batch, batch_id):
        rows = [[row["k"], row["minute"].isoformat(), row["rows"]] for row in batch.toArrow().to_pylist()]
        staged.append(batch_id)
        if batch_id > 0:
            gate.wait(60)
        return Staged(rows, len(rows))

    def commit(self, checkpoint, committables):
        committed.extend(tuple(row) for rows in committables for row in rows)

    def abort(self):
        pass

    def close(self):
        pass
"""


def timed(path: Path, **watermark: str) -> dict[str, Any]:
    return source(path.name, "json", SCHEMA, path, watermark={"column": "at", "delay": "0s", **watermark})


def job_of(sources: list[dict[str, Any]], form: str, path: str | Path = "") -> dict[str, Any]:
    union = " UNION ALL ".join(f"SELECT k, at FROM {each['name']}" for each in sources)
    windows = f"SELECT k, window.start AS minute, count(*) AS rows FROM ({union}) GROUP BY k, window(at, '1 minute')"
    counts = sql("counts", [each["name"] for each in sources], windows)
    how = {"maxParallelism": 2, "checkpointing": {"interval": "1h"}}
    return job_file(counts, sources=sources, sinks=[sink("counts", form, path)], **how)


def rows(*minutes: float) -> list[dict[str, Any]]:
    """Return a row for each minute past noon."""
    return [{"k": "a", "at": (NOON + timedelta(minutes=each)).isoformat()} for each in minutes]


def minutes_of(spark: SparkSession, path: Path) -> list[int]:
    """Return the windows in a JSON sink, in minutes past noon."""
    frame = spark.read.schema("k STRING, minute TIMESTAMP, rows BIGINT").json(str(path))
    return sorted(round((row["minute"] - NOON).total_seconds() / 60) for row in frame.toArrow().to_pylist())


def published(path: Path) -> bool:
    return any(path.glob("part-*"))


def test_windows_that_were_due_at_a_restart_fire_without_new_input(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gated.py").write_text(GATED_SINK)
    monkeypatch.syspath_prepend(str(tmp_path))
    gated = importlib.import_module("gated")
    add_file(tmp_path / "events", 0, rows(0.5, 1.5, 9.5))
    life = life_in(tmp_path, job_of([timed(tmp_path / "events")], "gated:Sink"))

    with running(spark, life) as job:
        # Batch 1 has no data and would fire the two first windows; the cut is after batch 0.
        job.wait_for(lambda: gated.staged[-1:] == [1], "second batch")
        job.runner.coordination.stop_now("stop")  # type: ignore[arg-type]
        job.wait_for(lambda: job.completed == 1, "last checkpoint")
        gated.gate.set()
        job.wait()
    assert gated.committed == []

    with running(spark, life) as job:
        job.wait_for(lambda: job.batch >= 1, "forced batch")
        job.stop()

    assert sorted(gated.committed) == [("a", "2026-01-01T12:00:00+00:00", 1), ("a", "2026-01-01T12:01:00+00:00", 1)]


def test_an_input_that_is_silent_after_a_restart_does_not_hold_back_the_others(
    spark: SparkSession, tmp_path: Path
) -> None:
    add_file(tmp_path / "slow", 0, rows(0.5, 1.5))
    add_file(tmp_path / "fast", 0, rows(0.5, 30.5))
    out = tmp_path / "out"
    spec = job_of([timed(tmp_path / "slow"), timed(tmp_path / "fast")], "json", out)
    life = life_in(tmp_path, spec, overrides=("checkpointing.interval=300ms",))

    with running(spark, life) as job:
        job.wait_for(lambda: published(out), "first window")
        job.stop()
    assert minutes_of(spark, out) == [0]

    # The fast input says nothing any more: its own watermark, half past, is known from the checkpoint only.
    add_file(tmp_path / "slow", 1, rows(2.5, 5.5))
    before = len(list(out.glob("part-*")))
    with running(spark, life) as job:
        job.wait_for(lambda: len(list(out.glob("part-*"))) > before, "next windows")
        job.stop()

    assert minutes_of(spark, out) == [0, 1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("split", core([False, True], False), ids=["fused", "split"])
def test_an_idle_input_is_left_out_of_the_watermark_which_stays_where_it_is_after_a_restore(
    spark: SparkSession, tmp_path: Path, *, split: bool
) -> None:
    add_file(tmp_path / "busy", 0, rows(0.5, 1.5, 30.5))
    (tmp_path / "quiet").mkdir()
    out = tmp_path / "out"
    spec = job_of([timed(tmp_path / "busy"), timed(tmp_path / "quiet", idleTimeout="1s")], "json", out)
    if split:
        passed = [sql(f"{name}_rows", name, chain=False) for name in ("busy", "quiet")]
        (counts,) = spec["operators"]
        query = counts["sql"].replace("busy", "busy_rows").replace("quiet", "quiet_rows")
        spec["operators"] = [*passed, {**counts, "inputs": ["busy_rows", "quiet_rows"], "sql": query}]
    life = life_in(tmp_path, spec, overrides=("checkpointing.interval=300ms",))

    with running(spark, life) as job:
        # Nobody sends anything any more: the busy input, which may not be idle, holds the watermark at half past.
        job.wait_for(
            lambda: published(out) and minutes_of(spark, out) == [0, 1], "windows that are due without the input"
        )
        job.stop()

    add_file(tmp_path / "quiet", 0, rows(2.5, 29.5, 31.5))
    with running(spark, life) as job:
        job.wait_for_batches(2)
        add_file(tmp_path / "busy", 1, rows(60.5))
        job.wait_for(lambda: len(minutes_of(spark, out)) >= 4, "windows behind the idle input")
        job.stop()

    # Minutes 2 and 29 were over when the idle input spoke again.
    assert minutes_of(spark, out) == [0, 1, 30, 31]
