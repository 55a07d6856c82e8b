"""The end of a graph's work: one final checkpoint, whatever the depth, and nothing left to do for a second start.

In the spirit of Flink's CheckpointAfterAllTasksFinishedITCase.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.core import core
from tests.integration.runtime.embedded import EmbeddedJob, Life, finish, life_in, running
from tests.integration.runtime.graphs import add_rows, job, numbered, output, rows_of, source
from tests.integration.runtime.processes import JobRuns
from tests.jobs import sql

from streamjob.client.models import JobState
from streamjob.errors import ExitCode
from streamjob.snapshot.record import RecordKind
from streamjob_runtime.chain.emissions.outputs import Outputs
from streamjob_runtime.checkpointing.ledger import Ledger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROWS = Counter((row.k, row.n) for row in numbered(0, 60))


def deep(directory: Path, depth: int, interval: str) -> Life:
    """Return a job that hands its rows on from chain to chain."""
    for number in range(3):
        add_rows(directory / "rows", number, numbered(number * 20, 20))
    names = ["rows", *(f"step{number}" for number in range(depth))]
    operators = [sql(name, [before], f"SELECT k, n FROM {before}", chain=False) for before, name in pairwise(names)]
    sources = [source("rows", directory / "rows", bounded=True)]
    spec = job(directory, sources, operators, names[-1:], checkpointing={"interval": interval})
    return life_in(directory, spec)


def kinds(life: Life) -> list[RecordKind]:
    return [record.kind for record in JobRuns(life.file, Path(life.location), "job").completions()]


@pytest.mark.parametrize("depth", core([1, 4], 4))
def test_one_final_checkpoint_commits_everything_whatever_the_depth(
    spark: SparkSession, tmp_path: Path, depth: int
) -> None:
    life = deep(tmp_path, depth, "1h")
    with running(spark, life) as first:
        assert first.wait() is ExitCode.OK
        assert len(first.runner.job.plan.chains) == depth + 1

    assert kinds(life) == [RecordKind.FINAL]
    assert rows_of(output(tmp_path, f"step{depth - 1}")) == ROWS

    finish(spark, life)
    assert kinds(life) == [RecordKind.FINAL]
    assert rows_of(output(tmp_path, f"step{depth - 1}")) == ROWS


@pytest.mark.parametrize("moment", ["before the final record", "before its publication"])
def test_a_failure_at_the_end_is_made_up_for_without_a_second_final_record(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    broken, name = (Ledger, "complete") if moment == "before the final record" else (Outputs, "commit")
    works, failures = getattr(broken, name), [RuntimeError("killed here")]
    jobs: list[EmbeddedJob] = []

    def fail_once(*arguments: object, **more: object) -> object:
        if failures and jobs and jobs[0].state is JobState.FINISHING:
            raise failures.pop()
        return works(*arguments, **more)

    monkeypatch.setattr(broken, name, fail_once)
    life = deep(tmp_path, 2, "1s")
    with running(spark, life) as ended:
        jobs.append(ended)
        assert ended.wait() is ExitCode.OK

    assert not failures
    assert kinds(life).count(RecordKind.FINAL) == 1
    assert rows_of(output(tmp_path, "step1")) == ROWS
    assert ended.runner.coordination.lifecycle.restarts == (1 if broken is Outputs else 0)
