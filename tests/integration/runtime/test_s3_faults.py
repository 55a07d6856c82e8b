"""A job whose S3 refuses, breaks off, applies without saying so, and is away: it goes on, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.runtime.embedded import Life, running
from tests.integration.runtime.purchases import Purchases, line_rows, table_rows, write_job
from tests.servers.faulty import (
    FaultyProxy,
    Noted,
    answer,
    answer_after_applying,
    cut_after_applying,
    cut_before_applying,
    cut_halfway,
)
from tests.servers.s3 import S3Server

from streamjob.errors import ExitCode
from streamjob.protocol.lifecycle import JobState
from streamjob.store.s3 import S3Store
from streamjob.store.s3_connection import S3Connection, S3Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Purchases:
    """Input for as long as the faults take."""
    return Purchases.write(tmp_path_factory.mktemp("many"), files=60, rows=20)


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[FaultyProxy]:
    with FaultyProxy(s3_server.port) as running_proxy:
        yield running_proxy


@pytest.fixture
def store(
    proxy: FaultyProxy, s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[S3Store]:
    """A store that gives up sooner than one in production."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    settings = S3Settings(endpoint=proxy.endpoint, attempts=2, backoff=0.05, connect_timeout=2, read_timeout=5)
    opened = S3Store(S3Connection(settings), s3_server.bucket, f"{tmp_path.name}/default/job")
    yield opened
    opened.close()


@pytest.mark.thorough
@pytest.mark.timeout(400)
def test_a_store_that_fails_in_every_way_costs_checkpoints_and_no_rows(
    many: Purchases, spark: SparkSession, store: S3Store, proxy: FaultyProxy, tmp_path: Path
) -> None:
    file = write_job(tmp_path / "job", many.job())
    overrides = ("checkpointing.interval=300ms", "checkpointing.tolerableFailedCheckpoints=1000")

    with running(spark, Life(file=file, store=store, overrides=overrides)) as job:
        job.wait_for(lambda: job.completed >= 1, "first checkpoint")

        # The store's own retries hide it; a record whose answer was lost is recognised as the job's own.
        failed = job.failed
        for operation, key, fault in (
            ("PutObject", "shared/", answer(503)),
            ("PutObject", "shared/", cut_before_applying),
            ("PutObject", "shared/", answer_after_applying(500)),
            ("PutObject", "manifest.json", cut_after_applying),
            ("PutObject", "log/", cut_after_applying),
            ("PutObject", "log/", answer_after_applying(503)),
            ("ListObjectsV2", "", cut_halfway),
            ("DeleteObjects", "", answer(503)),
        ):
            noted = Noted(fault)
            proxy.on(operation, noted, key=key)
            job.wait_for(noted.met.is_set, f"{operation} {key}")
            job.wait_for_checkpoints(during=f"{operation} {key}")
        assert job.failed == failed

        # Beyond them: the checkpoint fails, is counted, and the next one makes up for it.
        proxy.on("PutObject", answer(503), times=4, key="shared/")
        job.wait_for(lambda: job.failed > failed, "failed checkpoint")
        job.wait_for_checkpoints(during="after a failed one")

        with proxy.away():
            failed = job.failed
            job.wait_for(lambda: job.failed >= failed + 3, "failed checkpoints while the store is away")
            job.wait_for_batches()
        job.wait_for_checkpoints(during="once the store is back")

        assert job.wait() is ExitCode.OK
        view = job.control.job()

    assert view.state is JobState.FINISHED
    assert view.restarts == 0
    latest = job.control.checkpoints().latest.failed
    assert latest is not None
    assert latest.failure_message
    expected = many.batch(spark)
    assert table_rows(spark, file.parent / "table") == expected
    assert line_rows(spark, file.parent / "lines") == expected


@pytest.mark.thorough
@pytest.mark.timeout(400)
def test_more_failures_than_are_tolerable_restart_the_job_until_the_store_is_back(
    many: Purchases, spark: SparkSession, store: S3Store, proxy: FaultyProxy, tmp_path: Path
) -> None:
    file = write_job(tmp_path / "job", many.job())
    overrides = ("checkpointing.interval=300ms", "checkpointing.tolerableFailedCheckpoints=1")

    with running(spark, Life(file=file, store=store, overrides=overrides)) as job:
        job.wait_for(lambda: job.completed >= 1, "first checkpoint")
        with proxy.away():
            # The first restart needs the log, and does not get it either.
            job.wait_for(lambda: job.control.job().restarts >= 2, "second restart")
        assert job.wait() is ExitCode.OK

    expected = many.batch(spark)
    assert table_rows(spark, file.parent / "table") == expected
    assert line_rows(spark, file.parent / "lines") == expected
