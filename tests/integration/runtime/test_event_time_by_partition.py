"""Event time follows the slowest partition of a topic, and no time that is far ahead of the clock."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests import jobs
from tests.integration.runtime.embedded import EmbeddedJob, Life, finish, life_in, running
from tests.integration.runtime.graphs import job, manifests, output, rows_of
from tests.integration.runtime.power import Power
from tests.integration.runtime.processes import job_runs
from tests.integration.runtime.purchases import add_file
from tests.integration.runtime.stories import NEVER
from tests.jobs import sql
from tests.servers.kafka import KafkaServer

from streamjob.client.client import ControlClient
from streamjob.client.discovery import find_endpoint
from streamjob.errors import ExitCode
from streamjob.ids import TriggerId

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark]

ROOT = Path(__file__).parents[3]
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
WINDOWS = """
    SELECT k, date_format(window.start, 'dd HH:mm') AS s, count(*) AS n FROM rows GROUP BY k, window(at, '1 hour')
"""


def at(hours: float) -> str:
    return (BEGIN + timedelta(hours=hours)).isoformat()


def produce(server: KafkaServer, topic: str, partition: int, hours: Iterable[float]) -> None:
    rows = [(None, json.dumps({"k": partition, "at": at(each)})) for each in hours]
    server.produce(topic, rows, partition=partition)


def topic_job(
    directory: Path,
    server: KafkaServer,
    topic: str,
    *,
    bounded: bool = False,
    interval: str = "1h",
    channel: bool = False,
    **how: Any,
) -> Life:
    """Return a job that counts the rows of each partition by the hour, behind a channel or in the source's chain."""
    source = jobs.topic(
        "rows",
        server.bootstrap,
        topic,
        {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 16},
        bounded=bounded,
        value={"format": "json", "schema": "k INT, at TIMESTAMP"},
        columns=["value.*"],
        watermark={"column": "at", "delay": "10m", **how},
    )
    counts = sql("counts", ["rows"], WINDOWS, chain=not channel)
    spec = job(directory, [source], [counts], ["counts"], name="job", checkpointing={"interval": interval})
    return life_in(directory, spec)


def counted(directory: Path) -> Counter[Any]:
    """Return the number of rows by partition and hour, and check that each window came once."""
    rows = rows_of(output(directory, "counts"))
    assert set(rows.values()) <= {1}
    return Counter({(k, s): n for k, s, n in rows})


def hours(partition: int, *times: float) -> Counter[Any]:
    return Counter((partition, (BEGIN + timedelta(hours=int(each))).strftime("%d %H:%M")) for each in times)


def watermarks(life: Life) -> dict[str, Any]:
    """Return the watermarks of partitions in the newest snapshot, by topic."""
    newest = manifests(Path(life.location) / "default" / life.name)[-1:]
    found = [each.partitions for one in newest for chain in one.chains for each in chain.inputs if each.partitions]
    return found[0] if found else {}


def watermark(running_job: EmbeddedJob) -> int | None:
    running_job.control.observe()
    return running_job.control.job().chains[0].inputs[0].watermark_ms


def is_idle(running_job: EmbeddedJob) -> bool:
    running_job.control.observe()
    return any(each.idle for chain in running_job.control.job().chains for each in chain.inputs)


def milliseconds(hour: float) -> int:
    return round((BEGIN + timedelta(hours=hour, minutes=-10)).timestamp() * 1000)


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.core
def test_no_row_of_a_backlog_is_late_if_each_partition_is_in_order_also_behind_a_restart(
    spark: SparkSession, kafka_server: KafkaServer, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast = [each / 4 for each in range(40)]
    slow = [*(each / 20 for each in range(20)), *(9 + each / 20 for each in range(20))]
    produce(kafka_server, topic, 0, fast)
    produce(kafka_server, topic, 1, slow)
    life = topic_job(tmp_path, kafka_server, topic, bounded=True)
    power = Power(monkeypatch)
    with running(spark, replace(life, restarts=NEVER)) as first:
        first.wait_for_batches()
        first.checkpoint()
        power.cut(first, lambda: None)
        first.wait()
    before = watermarks(life)[topic]
    assert before["0"] > before["1"]

    power.comes_back()
    finish(spark, life)

    assert counted(tmp_path) == hours(0, *fast) + hours(1, *slow)


@pytest.mark.server
@pytest.mark.slow
def test_a_silent_partition_holds_the_watermark_back_until_it_is_idle_and_a_new_one_does_so_too(
    spark: SparkSession, kafka_server: KafkaServer, topic: str, tmp_path: Path
) -> None:
    produce(kafka_server, topic, 0, [0.5, 5.5])
    life = topic_job(tmp_path, kafka_server, topic, interval="300ms")
    with running(spark, life) as held:
        held.wait_for_batches()
        assert watermark(held) is None
        produce(kafka_server, topic, 1, [2.5])
        held.wait_for(lambda: watermark(held) == milliseconds(2.5), "the least watermark")
        held.wait_for(lambda: counted(tmp_path) == hours(0, 0.5), "the window before it")
        assert held.stop() is ExitCode.OK
    assert watermarks(life)[topic] == {"0": milliseconds(5.5), "1": milliseconds(2.5)}

    kafka_server.add_partitions(topic, 3)
    with running(spark, topic_job(tmp_path, kafka_server, topic, interval="300ms", idleTimeout="1s")) as idle:
        idle.wait_for(lambda: is_idle(idle), "silence of all partitions")
        produce(kafka_server, topic, 0, [7.5])
        idle.wait_for(lambda: watermark(idle) == milliseconds(7.5), "the watermark of the only partition with rows")
        closed = hours(0, 0.5, 5.5) + hours(1, 2.5)
        idle.wait_for(lambda: counted(tmp_path) == closed, "the windows before it")
        assert idle.stop() is ExitCode.OK


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_no_row_of_a_backlog_is_late_with_more_task_slots_and_fewer_and_with_a_new_partition(
    spark: SparkSession, kafka_server: KafkaServer, topic: str, tmp_path: Path
) -> None:
    silent = [20.0, 20.5]
    slow = [each / 20 for each in range(60)]
    new = [3 + each / 4 for each in range(64)]
    later = {1: [27 + each / 20 for each in range(60)], 2: [20 + each / 4 for each in range(16)]}
    produce(kafka_server, topic, 0, silent)
    life = topic_job(tmp_path, kafka_server, topic, interval="300ms", channel=True)
    with running(spark, life) as two_slots:
        two_slots.wait_for(
            lambda: watermarks(life) == {topic: {"0": milliseconds(20.5)}}, "all of the silent partition"
        )
        produce(kafka_server, topic, 1, slow)
        two_slots.wait_for(lambda: len(watermarks(life).get(topic, {})) == 2, "a checkpoint within the slow partition")
        two_slots.control.stop(savepoint=True, location=None, drain=False, trigger_id=TriggerId("stop"))
        assert two_slots.wait() is ExitCode.OK
    before = watermarks(life)[topic]
    assert before["1"] < before["0"] == milliseconds(20.5)

    kafka_server.add_partitions(topic, 3)
    produce(kafka_server, topic, 2, new)
    environment = {"PYTHONPATH": str(ROOT)}
    with job_runs(life.file, life.location, life.name) as runs:
        savepoint = (runs.root / str(runs.completions()[-1].manifest)).as_uri()
        more = ("--parallelism", "3", "--max-parallelism", "3", "--from", savepoint)
        three_slots = runs.start(*more, environment=environment)
        runs.wait(lambda: len(watermarks(life).get(topic, {})) == 3, "checkpoint with the new partition", three_slots)
        three_slots.kill()
        killed = watermarks(life)[topic]
        assert max(killed["1"], killed["2"]) < killed["0"] == before["0"]

        for partition, times in later.items():
            produce(kafka_server, topic, partition, times)
        one_slot = runs.start("--parallelism", "1", "--max-parallelism", "3", environment=environment)
        closed = hours(1, *slow) + hours(2, *new)
        runs.wait(lambda: counted(tmp_path) == closed, "the windows before the silent partition", one_slot)
        endpoint = find_endpoint(workdir=life.file.parent / "work")
        with ControlClient(endpoint.url, endpoint.token) as client:
            late = [each.records_late for chain in client.job().chains for each in chain.inputs]
            client.stop(savepoint=True, drain=True)
        assert one_slot.wait() == 0, one_slot.output()

    assert set(late) == {0}
    assert counted(tmp_path) == hours(0, *silent) + hours(1, *slow, *later[1]) + hours(2, *new, *later[2])


@pytest.mark.slow
@pytest.mark.core
def test_a_time_far_ahead_of_the_clock_does_not_move_the_watermark_and_is_counted(
    spark: SparkSession, tmp_path: Path
) -> None:
    for number in range(4):
        add_file(tmp_path / "in", number, [{"k": 0, "at": at(number)}])
    add_file(tmp_path / "in", 1, [{"k": 0, "at": at(1)}, {"k": 0, "at": "2999-01-01T00:00:00Z"}])
    watermark = {"column": "at", "delay": "1m"}
    source = jobs.files("rows", tmp_path / "in", "k INT, at TIMESTAMP", watermark=watermark)
    spec = job(tmp_path, [source], [sql("counts", ["rows"], WINDOWS)], ["counts"])
    with running(spark, life_in(tmp_path, spec)) as running_job:
        running_job.wait_for(lambda: counted(tmp_path) == hours(0, 0, 1), "the windows before the last row")
        running_job.control.observe()
        seen = running_job.control.job().chains[0].inputs[0]
        running_job.stop()

    assert (seen.records_ahead, seen.records_late) == (1, 0)
    assert seen.farthest_ms == round(datetime(2999, 1, 1, tzinfo=UTC).timestamp() * 1000)
    assert seen.watermark_ms == round((BEGIN + timedelta(hours=3, minutes=-1)).timestamp() * 1000)
