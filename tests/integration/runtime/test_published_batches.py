"""Sinks that publish each batch: rows are there long before a checkpoint, and once, whatever is killed on the way."""

from __future__ import annotations

import json
import os
import random
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests import jobs
from tests.integration.runtime.killing import killer
from tests.integration.runtime.processes import JobProcess, JobRuns, job_runs
from tests.integration.runtime.purchases import write_job
from tests.jobs import job_file, sql
from tests.servers.kafka import KafkaServer
from tests.servers.s3 import S3Server

from streamjob.errors import ExitCode
from streamjob_runtime.sinks.kafka.commits import journal_topic

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

RECORDS = 1200
BATCH = 40
MINUTE = 60_000
BEGIN = 1_767_225_600_000
SINKS = ("rows", "minutes")


def name_of(topic: str) -> str:
    """Return the name of the test's own job: the journals of all are in one topic."""
    return f"published-{topic.rpartition('-')[2]}"


def fill(broker: KafkaServer, topic: str, first: int = 0, records: int = RECORDS) -> None:
    """Put numbered records into a topic, each a second later than the one before."""
    if not first:
        # The records are older than what a topic keeps by default.
        broker.create_topic(f"{topic}-in", 2, retention_ms="-1")
    producer = broker.producer()
    for number in range(first, first + records):
        value = json.dumps({"n": number, "k": number % 7})
        producer.produce(f"{topic}-in", value=value, partition=number % 2, timestamp=BEGIN + number * 1000)
    assert producer.flush(30) == 0


def expected(records: int = RECORDS) -> dict[str, Counter[Any]]:
    """Return what a batch makes of all records."""
    minutes = Counter((number // 60, number % 7) for number in range(records))
    sums: Counter[Any] = Counter()
    for number in range(records):
        sums[number // 60, number % 7] += number
    return {
        "rows": Counter((number, number * 2) for number in range(records)),
        "minutes": Counter((minute, k, events, sums[minute, k]) for (minute, k), events in minutes.items()),
    }


def publishing_job(
    broker: KafkaServer,
    topic: str,
    *,
    interval: str = "1h",
    doubled: str = "row.n * 2",
    options: Mapping[str, str] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """Return a job that writes rows, and counts by minute, each to a topic and with each batch."""
    limit = {"maxOffsetsPerTrigger": BATCH, "startingOffsets": "earliest"}
    timed = {"watermark": {"column": "timestamp", "delay": "10s"}, **fields}
    row = "from_json(CAST(value AS STRING), 'n BIGINT, k INT') AS row, timestamp"
    counted = (
        "SELECT to_json(named_struct('minute', unix_seconds(window.start), 'k', k, 'events', events, 'total', total)) "
        "AS value FROM (SELECT window(timestamp, '1 minute') AS window, row.k AS k, count(*) AS events, "
        f"sum(row.n) AS total FROM (SELECT {row} FROM {{}}) GROUP BY ALL)"
    )
    return job_file(
        sql(
            "numbers",
            "first",
            f"SELECT to_json(named_struct('n', row.n, 'd', {doubled})) AS value FROM (SELECT {row} FROM {{}})",
        ),
        sql("counts", "second", counted),
        sources=[jobs.topic(name, broker.bootstrap, f"{topic}-in", limit, **timed) for name in ("first", "second")],
        sinks=[
            jobs.sink(
                of,
                "kafka",
                name=name,
                options={"kafka.bootstrap.servers": broker.bootstrap, "topic": f"{topic}-{name}", **(options or {})},
                publish="batch",
            )
            for of, name in (("numbers", "rows"), ("counts", "minutes"))
        ],
        name=name_of(topic),
        parallelism=2,
        maxParallelism=2,
        checkpointing={"interval": interval},
    )


def published(broker: KafkaServer, topic: str) -> dict[str, Counter[Any]]:
    """Return what readers of committed records see."""
    rows = {name: [json.loads(each.value or b"") for each in broker.consume(f"{topic}-{name}")] for name in SINKS}
    begin = BEGIN // 1000
    return {
        "rows": Counter((each["n"], each["d"]) for each in rows["rows"]),
        "minutes": Counter(
            ((each["minute"] - begin) // 60, each["k"], each["events"], each["total"]) for each in rows["minutes"]
        ),
    }


def make_topics(broker: KafkaServer, topic: str) -> None:
    for name in SINKS:
        broker.create_topic(f"{topic}-{name}", 2)


def wait_until_published(runs: JobRuns, broker: KafkaServer, topic: str, rows: int, process: JobProcess) -> None:
    runs.wait(lambda: len(broker.consume(f"{topic}-rows")) >= rows, f"{rows} rows", process)


STEPS = (
    # Before a transaction, behind it, and in the middle of the first and of a later run.
    ("streamjob_runtime.sinks.kafka.transactions Producer.commit 5",),
    ("streamjob_runtime.chain.emissions.emission_lock EmissionLock.emit 9",),
    (
        "streamjob_runtime.sinks.kafka.transactions Producer.commit 31",
        "streamjob_runtime.sinks.kafka.sink KafkaSink.measure 3",
    ),
    (
        "streamjob_runtime.checkpointing.ledger Ledger.complete 1",
        "streamjob_runtime.sinks.kafka.sink KafkaSink._send 0",
    ),
    (
        "streamjob_runtime.sinks.kafka.sink KafkaSink._send 1",
        "streamjob_runtime.sinks.kafka.sink KafkaSink.journal 0",
    ),
)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("steps", STEPS, ids=lambda steps: steps[-1].split()[1])
def test_killed_between_transaction_journal_and_checkpoint_each_row_is_published_once(
    kafka_server: KafkaServer, topic: str, tmp_path: Path, steps: tuple[str, ...]
) -> None:
    fill(kafka_server, topic)
    make_topics(kafka_server, topic)
    interval = "2s" if any("_send" in each or "complete" in each for each in steps) else "1h"
    file = write_job(tmp_path, publishing_job(kafka_server, topic, interval=interval, bounded=True))
    environment = killer(tmp_path)
    with job_runs(file, tmp_path / "snapshots", name_of(topic)) as runs:
        for step in steps:
            process = runs.start(environment={**environment, "KILLED_AT": step})
            assert process.wait() == -9, process.output()
        last = runs.start(environment=environment)
        assert last.wait() == 0, last.output()
    assert published(kafka_server, topic) == expected()


@pytest.mark.timeout(400)
@pytest.mark.core
def test_rows_are_there_before_any_checkpoint_and_once_behind_kills_at_random_moments(
    kafka_server: KafkaServer, topic: str, tmp_path: Path
) -> None:
    chance = random.Random(42)
    fill(kafka_server, topic)
    make_topics(kafka_server, topic)
    file = write_job(tmp_path, publishing_job(kafka_server, topic, bounded=True))
    with job_runs(file, tmp_path / "snapshots", name_of(topic)) as runs:
        for life, rows in enumerate(sorted(chance.sample(range(100, RECORDS - 300), 2)), 1):
            process = runs.start()
            wait_until_published(runs, kafka_server, topic, rows, process)
            process.kill()
            if life == 1:
                # Only the checkpoint before the first batch is there.
                assert [each.id for each in runs.completions()] == [1]
        last = runs.start()
        assert last.wait() == 0, last.output()
    assert published(kafka_server, topic) == expected()


@pytest.fixture
def killed(kafka_server: KafkaServer, topic: str, tmp_path: Path) -> Iterator[JobRuns]:
    """Return the runs of a job that was killed when it had published some batches."""
    fill(kafka_server, topic)
    make_topics(kafka_server, topic)
    file = write_job(tmp_path, publishing_job(kafka_server, topic, bounded=True))
    with job_runs(file, tmp_path / "snapshots", name_of(topic)) as runs:
        process = runs.start()
        wait_until_published(runs, kafka_server, topic, 200, process)
        process.kill()
        yield runs


@pytest.mark.timeout(400)
def test_a_job_that_was_killed_and_changed_starts_only_as_it_was(
    kafka_server: KafkaServer, topic: str, tmp_path: Path, killed: JobRuns
) -> None:
    before = published(kafka_server, topic)["rows"]

    write_job(tmp_path, publishing_job(kafka_server, topic, bounded=True, doubled="row.n * 3"))
    changed = killed.start()
    assert changed.wait() == ExitCode.CANNOT_RESTORE
    assert (
        "batches behind checkpoint 1, which have to run again as they did, and numbers changed since"
        in changed.output()
    )
    assert published(kafka_server, topic)["rows"] == before

    # By checkpoint, what was published is compared and not published again.
    job = publishing_job(kafka_server, topic, bounded=True)
    write_job(tmp_path, {**job, "sinks": [{**each, "publish": "checkpoint"} for each in job["sinks"]]})
    last = killed.start()
    assert last.wait() == ExitCode.OK, last.output()
    assert published(kafka_server, topic) == expected()


@pytest.mark.timeout(400)
def test_a_journal_that_is_gone_stops_the_job(kafka_server: KafkaServer, topic: str, killed: JobRuns) -> None:
    identity = f"default/{name_of(topic)}/rows"
    kafka_server.delete_topic(journal_topic("streamjob.commits", identity))
    before = published(kafka_server, topic)["rows"]

    again = killed.start()
    assert again.wait() == ExitCode.CANNOT_RESTORE
    assert "sink rows: its journal" in again.output()
    assert "was deleted. So it is not known which rows were published behind the checkpoint" in again.output()
    assert published(kafka_server, topic)["rows"] == before


@pytest.mark.timeout(400)
def test_a_function_that_reads_a_clock_stops_the_job_when_its_batches_run_again(
    kafka_server: KafkaServer, topic: str, tmp_path: Path
) -> None:
    fill(kafka_server, topic)
    make_topics(kafka_server, topic)
    (tmp_path / "clocks.py").write_text(
        "import time\n\n\ndef clock(n: int) -> int:\n    return time.time_ns() + n\n", encoding="utf-8"
    )
    job = publishing_job(kafka_server, topic, bounded=True, doubled="clock(row.n)")
    file = write_job(tmp_path, {**job, "functions": {"clock": "clocks:clock"}})
    with job_runs(file, tmp_path / "snapshots", name_of(topic)) as runs:
        process = runs.start()
        wait_until_published(runs, kafka_server, topic, 100, process)
        process.kill()
        before = kafka_server.consume(f"{topic}-rows")

        again = runs.start()
        assert again.wait() == ExitCode.CANNOT_RESTORE, again.output()
        assert "sink rows: batch 0 ran again and has other rows: 40 were published" in again.output()
    assert len(kafka_server.consume(f"{topic}-rows")) == len(before)


@pytest.mark.timeout(400)
def test_a_stop_covers_all_that_was_published_so_that_the_job_may_be_changed(
    kafka_server: KafkaServer, topic: str, tmp_path: Path
) -> None:
    make_topics(kafka_server, topic)
    with job_runs(tmp_path / "job.yaml", tmp_path / "snapshots", name_of(topic)) as runs:
        for life, first in enumerate((0, 300, 600), 2):
            fill(kafka_server, topic, first, 300)
            write_job(tmp_path, publishing_job(kafka_server, topic, doubled=f"row.n * {life}"))
            process = runs.start()
            wait_until_published(runs, kafka_server, topic, first + 100, process)
            process.send(signal.SIGTERM)
            assert process.wait() == ExitCode.OK, process.output()
            assert "run again" not in process.output()
        fill(kafka_server, topic, 900, 300)
        write_job(tmp_path, publishing_job(kafka_server, topic, bounded=True, doubled="row.n * 5"))
        last = runs.start()
        assert last.wait() == ExitCode.OK, last.output()
    found = published(kafka_server, topic)
    assert Counter(n for n, _ in found["rows"].elements()) == Counter(range(RECORDS))
    assert {d // n for n, d in found["rows"] if n} == {2, 3, 4, 5}
    assert found["minutes"] == expected()["minutes"]


@pytest.mark.timeout(400)
def test_a_chain_without_state_computes_nothing_again_that_it_has_published_behind_a_checkpoint(
    kafka_server: KafkaServer, topic: str, tmp_path: Path
) -> None:
    make_topics(kafka_server, topic)
    calls = tmp_path / "calls"
    (tmp_path / "noting.py").write_text(
        f"def noted(n: int) -> int:\n    open({str(calls)!r}, 'a').write(f'{{n}}\\n')\n    return n * 2\n",
        encoding="utf-8",
    )
    job = publishing_job(kafka_server, topic, doubled="noted(row.n)")
    job |= {part: job[part][:1] for part in ("sources", "operators", "sinks")}
    file = write_job(tmp_path, {**job, "functions": {"noted": "noting:noted"}})

    def computed() -> Counter[int]:
        return Counter(n for n in map(int, calls.read_text().split()) if n < 600)

    with job_runs(file, tmp_path / "snapshots", name_of(topic)) as runs:

        def publish(first: int) -> JobProcess:
            fill(kafka_server, topic, first, 300)
            process = runs.start()
            wait_until_published(runs, kafka_server, topic, first + 300, process)
            return process

        stopped = publish(0)
        stopped.send(signal.SIGTERM)
        assert stopped.wait() == ExitCode.OK, stopped.output()
        publish(300).kill()
        before = computed()
        last = publish(600)
        assert "are not computed again: it has no state" in last.output()
        assert computed() == before
    assert published(kafka_server, topic)["rows"] == expected(900)["rows"]


@pytest.mark.timeout(400)
def test_a_sink_that_gets_another_name_after_a_kill_publishes_nothing_again(
    kafka_server: KafkaServer, topic: str, tmp_path: Path, killed: JobRuns
) -> None:
    before = published(kafka_server, topic)["rows"]
    job = publishing_job(kafka_server, topic, bounded=True)
    renamed = [{**each, "name": "lines"} if each["name"] == "rows" else each for each in job["sinks"]]
    write_job(tmp_path, {**job, "sinks": renamed})

    refused = killed.start()
    assert refused.wait() == ExitCode.CANNOT_RESTORE
    assert "sink rows has published" in refused.output()
    assert "the sink was removed since" in refused.output()
    assert published(kafka_server, topic)["rows"] == before

    write_job(tmp_path, job)
    last = killed.start()
    assert last.wait() == ExitCode.OK, last.output()
    assert published(kafka_server, topic) == expected()


@pytest.mark.timeout(400)
def test_a_start_that_names_the_newest_checkpoint_publishes_again_what_was_published_behind_it(
    kafka_server: KafkaServer, topic: str, tmp_path: Path, killed: JobRuns
) -> None:
    before = published(kafka_server, topic)
    write_job(tmp_path, publishing_job(kafka_server, topic, bounded=True, doubled="row.n * 3"))
    (checkpoint,) = killed.completions()

    last = killed.start("--from", str(checkpoint.manifest))
    assert last.wait() == ExitCode.OK, last.output()
    assert "are published again" in last.output()
    found = published(kafka_server, topic)
    assert found["rows"] == before["rows"] + Counter((number, number * 3) for number in range(RECORDS))
    assert found["minutes"] == before["minutes"] + expected()["minutes"]


@pytest.mark.timeout(400)
def test_a_row_that_fails_behind_published_batches_can_be_mended_when_they_have_run_again(
    kafka_server: KafkaServer, topic: str, tmp_path: Path
) -> None:
    fill(kafka_server, topic)
    make_topics(kafka_server, topic)
    failing = "IF(row.n = 500, CAST(raise_error('no 500') AS BIGINT), row.n * 2)"
    file = write_job(tmp_path, publishing_job(kafka_server, topic, bounded=True, doubled=failing))
    with job_runs(file, tmp_path / "snapshots", name_of(topic)) as runs:
        failing_again = runs.start()
        # It fails again when it has run the published batches again, and a checkpoint covers them.
        runs.wait(lambda: runs.epoch() > 2, "second restart", failing_again)
        failing_again.kill()
        assert "no 500" in failing_again.output()

        write_job(tmp_path, publishing_job(kafka_server, topic, bounded=True))
        mended = runs.start()
        assert mended.wait() == ExitCode.OK, mended.output()
    assert published(kafka_server, topic) == expected()


@pytest.mark.timeout(400)
def test_rows_go_on_while_the_store_is_away_and_a_stop_covers_them_when_it_is_back(
    kafka_server: KafkaServer, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topics(kafka_server, topic)
    fill(kafka_server, topic, 0, 400)
    with S3Server() as store:
        for name, value in store.environment.items():
            monkeypatch.setenv(name, value)
        job = publishing_job(kafka_server, topic, interval="1s")
        job["checkpointing"] |= {"timeout": "5s", "tolerableFailedCheckpoints": 1000}
        file = write_job(tmp_path, job)
        with job_runs(file, f"s3://{store.bucket}/{topic}", name_of(topic)) as runs:
            process = runs.start()
            wait_until_published(runs, kafka_server, topic, 400, process)
            os.kill(store.pid, signal.SIGSTOP)
            try:
                fill(kafka_server, topic, 400, 400)
                wait_until_published(runs, kafka_server, topic, 800, process)
            finally:
                os.kill(store.pid, signal.SIGCONT)
            process.kill()
            again = runs.start()
            fill(kafka_server, topic, 800, 400)
            wait_until_published(runs, kafka_server, topic, 1200, again)
            again.send(signal.SIGTERM)
            assert again.wait() == ExitCode.OK, again.output()
            write_job(tmp_path, {**job, "sources": [{**each, "bounded": True} for each in job["sources"]]})
            last = runs.start()
            assert last.wait() == ExitCode.OK, last.output()
            assert "run again" not in last.output()
    assert published(kafka_server, topic) == expected()
