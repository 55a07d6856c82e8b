"""A job starts from any retained checkpoint; its output from there on completes the published one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.runtime.embedded import Life, finish, running
from tests.integration.runtime.forks import first_completion, fresh_sinks, published_up_to
from tests.integration.runtime.processes import JobRuns
from tests.integration.runtime.purchases import Purchases, line_rows, table_rows, write_job

from streamjob.errors import ExitCode
from streamjob.protocol.log.restore import ClaimMode
from streamjob_runtime.checkpointing.ledger import RestoreFrom

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

KEEP_ALL = ("checkpointing.numRetained=100", "checkpointing.interval=1s")


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Purchases:
    return Purchases.write(tmp_path_factory.mktemp("few"), files=6, rows=40)


@pytest.fixture(scope="module")
def finished(few: Purchases, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> JobRuns:
    """A finished job, all of whose checkpoints are kept."""
    directory = tmp_path_factory.mktemp("finished")
    file = write_job(directory, few.job())
    with running(spark, Life(file=file, location=str(directory / "snapshots"), name="job", overrides=KEEP_ALL)) as job:
        assert job.wait() is ExitCode.OK
    return JobRuns(file, directory / "snapshots", "job")


@pytest.mark.timeout(600)
def test_every_retained_checkpoint_leads_to_the_output_of_the_batch(
    finished: JobRuns, few: Purchases, spark: SparkSession, tmp_path: Path
) -> None:
    expected = few.batch(spark)
    completions = finished.completions()
    assert len(completions) >= 3
    assert completions[-1].kind == "final"

    for record in completions[:-1]:
        mode = ClaimMode.NO_CLAIM if (record.id or 0) % 2 else ClaimMode.CLAIM
        name, sinks = f"from-{record.id}", tmp_path / f"sinks-{record.id}"
        uri = f"{(finished.root / str(record.manifest)).as_uri()}"
        life = Life(
            file=finished.file,
            location=str(tmp_path / "forks"),
            name=name,
            overrides=(*KEEP_ALL, *fresh_sinks(sinks)),
            restore_from=RestoreFrom(uri, mode),
        )
        with running(spark, life) as job:
            assert job.wait() is ExitCode.OK
            restored = job.control.job().restored_from
        assert restored is not None
        assert restored.id == record.id

        earlier = published_up_to(
            spark, finished.file.parent / "lines", record.id or 0, tmp_path / f"earlier-{record.id}"
        )
        assert earlier + line_rows(spark, sinks / "lines") == expected, f"from checkpoint {record.id}"
        assert earlier + table_rows(spark, sinks / "table") == expected, f"from checkpoint {record.id}"
        first = json.dumps(first_completion(tmp_path / "forks" / "default" / name)["chains"])
        assert "file://" not in first, "the first checkpoint refers to the source's objects"

    assert finished.completions() == completions


@pytest.mark.core
@pytest.mark.timeout(600)
def test_without_a_claim_the_first_checkpoint_is_full(few: Purchases, spark: SparkSession, tmp_path: Path) -> None:
    expected = few.batch(spark)
    file = write_job(tmp_path / "job", few.job())
    life = Life(file=file, location=str(tmp_path / "snapshots"), overrides=KEEP_ALL)
    runs = JobRuns(file, tmp_path / "snapshots", "job")
    with running(spark, life) as job:
        job.wait_for(lambda: runs.furthest() >= 2, "checkpoint of state")
        assert job.stop() is ExitCode.OK
    source = runs.manifest(runs.completions()[-1])
    assert source is not None
    assert source.objects()

    finish(spark, replace(life, restore_from=RestoreFrom("latest", ClaimMode.NO_CLAIM)))

    first = runs.manifest(runs.completions(2)[0])
    assert first is not None
    assert first.objects()
    assert not first.objects() & source.objects()
    assert table_rows(spark, file.parent / "table") == expected


@pytest.mark.timeout(600)
def test_a_finished_job_is_computed_once_more_only_if_it_is_started_from_elsewhere(
    few: Purchases, spark: SparkSession, tmp_path: Path
) -> None:
    expected = few.batch(spark)
    file = write_job(tmp_path / "job", few.job())
    life = Life(file=file, location=str(tmp_path / "snapshots"), overrides=KEEP_ALL)
    runs = JobRuns(file, tmp_path / "snapshots", "job")
    finish(spark, life)
    once = runs.completions()

    finish(spark, life)
    assert runs.completions() == once

    again = replace(life, overrides=(*KEEP_ALL, *fresh_sinks(tmp_path / "again")), restore_from=RestoreFrom("none"))
    finish(spark, again)
    assert table_rows(spark, tmp_path / "again" / "table") == expected
    assert runs.completions()[-1].kind == "final"
    assert runs.completions()[: len(once)] == once
    assert len(runs.completions()) > len(once)
    assert table_rows(spark, file.parent / "table") == expected
