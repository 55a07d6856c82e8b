"""State has a fixed number of partitions, and any number of task slots takes them over from a savepoint."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.runtime.embedded import Life, running
from tests.integration.runtime.processes import JobRuns, job_runs
from tests.integration.runtime.purchases import Purchases, line_rows, table_rows, write_job

from streamjob.client.client import ControlClient
from streamjob.client.discovery import find_endpoint
from streamjob.errors import ExitCode
from streamjob.ids import TriggerId
from streamjob.snapshot.manifest import Manifest
from streamjob.snapshot.record import RecordKind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SELDOM = "checkpointing.interval=1h"


@pytest.fixture
def own_partitions(spark: SparkSession) -> Iterator[None]:
    """Give the session back with the number of partitions that it had."""
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    yield
    spark.conf.set(name, str(before))


def savepoint(runs: JobRuns) -> tuple[str, Manifest]:
    """Return the URI of the job's last savepoint, and its manifest."""
    last = runs.completions()[-1]
    manifest = runs.manifest(last)
    assert last.kind is RecordKind.SAVEPOINT
    assert manifest is not None
    return (runs.root / str(last.manifest)).as_uri(), manifest


def stop_behind_savepoint(runs: JobRuns, *arguments: str) -> None:
    """Start the job in a process of its own, and stop it a batch later."""
    workdir, before = runs.file.parent / "work", runs.furthest()
    process = runs.start("--set", SELDOM, *arguments)
    runs.wait(lambda: (workdir / "control.json").exists(), "control file", process)
    endpoint = find_endpoint(workdir=workdir)
    with ControlClient(endpoint.url, endpoint.token) as client:

        def goes_on() -> bool:
            chains = client.job().chains
            return bool(chains) and chains[-1].batch > before

        runs.wait(goes_on, f"batch behind {before}", process)
        client.stop(savepoint=True)
    assert process.wait() == 0, process.output()


@pytest.mark.thorough
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("own_partitions")
def test_a_job_goes_on_from_its_savepoints_with_more_task_slots_and_with_fewer(
    spark: SparkSession, tmp_path: Path
) -> None:
    few = Purchases.write(tmp_path / "input", files=8, rows=30)
    spec = {key: value for key, value in few.job().items() if key != "maxParallelism"}
    location = str(tmp_path / "snapshots")
    with job_runs(write_job(tmp_path, spec), location, "purchases") as runs:
        # The tests' own Spark has two slots.
        with running(spark, Life(file=runs.file, location=location, name="purchases", overrides=(SELDOM,))) as job:
            job.wait_for_batches()
            job.control.stop(savepoint=True, location=None, drain=False, trigger_id=TriggerId("stop"))
            assert job.wait() is ExitCode.OK
        first, with_two = savepoint(runs)
        stop_behind_savepoint(runs, "--parallelism", "3", "--from", first)
        second, with_three = savepoint(runs)
        last = runs.start("--parallelism", "1", "--from", second)
        assert last.wait() == 0, last.output()
        record = runs.completions()[-1]
        with_one = runs.manifest(record)

    assert record.kind is RecordKind.FINAL
    assert with_one is not None
    graphs = [manifest.graph for manifest in (with_two, with_three, with_one)]
    # Without a word about it, the number of partitions is what the state has, and not what the slots suggest.
    assert [(graph["parallelism"], graph["maxParallelism"]) for graph in graphs] == [(2, 4), (3, 4), (1, 4)]
    expected = few.batch(spark)
    assert table_rows(spark, tmp_path / "table") == expected
    assert line_rows(spark, tmp_path / "lines") == expected
