"""A producer steps, ramps, spikes and goes silent: the controller gives the job task slots, and takes them away."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from e2e.harness.cluster import Cluster, Object
from e2e.harness.controller import ControllerProcess, StreamJobs
from e2e.harness.namespace import SMALL
from e2e.harness.nodes import full_node
from tests.servers.kafka import KafkaServer

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1500)]

NAME = "shouting"
PARTITIONS = 8
TIME = "left(reflect('java.lang.Thread', 'sleep', 5L), 0)"
"""5 ms, but no processor."""
WORK = "left(sha2(repeat(CAST(value AS STRING), 60000), 512), 0)"
"""Processors, and no time beside it."""
SLOW, FAST = 30, 400
"""Records per second. By time, a slot processes at most 200."""


@pytest.fixture
def kafka(cluster: Cluster) -> Iterator[KafkaServer]:
    """A broker on this machine, where pods reach it."""
    with KafkaServer(host=cluster.way_back) as server:
        server.create_topic("words", partitions=PARTITIONS)
        server.create_topic("shouts", partitions=PARTITIONS)
        yield server


class Producer:
    """Writes words to the topic, at the rate that the test sets.

    Args:
        kafka: where they go.
    """

    def __init__(self, kafka: KafkaServer) -> None:
        self.rate = 0
        self.written = 0
        self._kafka = kafka
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Producer:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End, and wait until the last word is written."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        last, due = time.monotonic(), 0.0
        while not self._ended.wait(1.0):
            now = time.monotonic()
            due += self.rate * (now - last)
            last, count = now, int(due)
            due -= count
            if count:
                self._kafka.produce("words", words(self.written, self.written + count))
                self.written += count


def words(start: int, end: int) -> list[tuple[str, str]]:
    return [(str(number), f"word {number}") for number in range(start, end)]


def shouting(kafka: KafkaServer, effort: str, *, most: int) -> Object:
    """Return a job whose records cost an effort: an expression of SQL that is an empty text.

    Args:
        kafka: the broker.
        effort: the expression.
        most: records of a batch.
    """
    broker = {"kafka.bootstrap.servers": kafka.bootstrap}
    source = {"subscribe": "words", "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(most)}
    query = f"SELECT key, concat(upper(CAST(value AS STRING)), {effort}) AS value FROM words"
    return {
        "sources": [{"name": "words", "format": "kafka", "options": {**broker, **source}}],
        "operators": [{"name": "shouts", "inputs": ["words"], "sql": query}],
        "sinks": [{"name": "out", "input": "shouts", "format": "kafka", "options": {**broker, "topic": "shouts"}}],
    }


def processors(jobs: StreamJobs) -> str:
    """Return the CPU request of the newest driver."""
    pod = jobs.namespace.get("Pod", jobs.drivers(NAME)[-1])
    assert pod is not None
    return str(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])


def scaling(jobs: StreamJobs, condition: Callable[[Object], object], *, what: str, within: float = 400.0) -> Object:
    """Wait until the status of the automatic scaling fulfils a condition, and return it."""
    found = jobs.wait(NAME, lambda status: condition(status.get("autoscaling") or {}), what=what, within=within)
    status: Object = found["autoscaling"]
    return status


def uids(jobs: StreamJobs, component: str) -> dict[str, str]:
    """Return the names and identities of a component's pods."""
    labels = f"streamjob.io/name={NAME},app.kubernetes.io/component={component}"
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in jobs.namespace.all("Pod", labels)}


def check_output(kafka: KafkaServer, number: int) -> None:
    """Wait until as many words are shouted, and compare them with those of a batch."""
    found = Counter(shouted(kafka, number))
    wanted = Counter(word.upper() for _, word in words(0, number))
    assert (wanted - found).total() == 0, f"missing: {list(wanted - found)[:5]}"
    assert (found - wanted).total() == 0, f"more than once, or wrong: {list(found - wanted)[:5]}"


def shouted(kafka: KafkaServer, number: int) -> list[str]:
    """Wait until as many shouts are committed, and return them."""
    end = time.monotonic() + 240
    while len(found := [(message.value or b"").decode() for message in kafka.consume("shouts")]) < number:
        assert time.monotonic() < end, f"what is committed stayed at {len(found)} of {number} rows"
        time.sleep(3)
    return found


def test_a_job_follows_its_load_with_its_driver_and_controller_killed_in_the_middle(
    jobs: StreamJobs, controller: ControllerProcess, kafka: KafkaServer
) -> None:
    jobs.apply(
        NAME,
        job=shouting(kafka, TIME, most=1600),
        maxParallelism=PARTITIONS,
        # Each slot has a producer with buffers of its own.
        driver={**jobs.namespace.driver, "memory": "1536m"},
        checkpointing={"location": jobs.namespace.location, "interval": "5s"},
        restartPolicy={"onFailureRetryInterval": "1s"},
        autoscaling={
            "mode": "Act",
            "max": 6,
            "maxLag": "30s",
            "scaleDownDelay": "1m",
            "cpuPerSlot": "50m",
            "means": ["Restart"],
        },
    )
    with Producer(kafka) as producer:
        producer.rate = SLOW
        jobs.wait_until_ready(NAME)
        steady = scaling(jobs, lambda status: status.get("state") == "Steady", what="steady job")
        assert steady["parallelism"] == 1

        producer.rate = FAST
        moved = scaling(jobs, lambda status: status.get("parallelism", 1) > 1, what="decision for more slots")
        assert "records/s arrive" in moved["reason"]
        controller.kill()
        for driver in jobs.drivers(NAME):
            jobs.namespace.delete("Pod", driver, grace=0)
        controller.start_again()
        jobs.wait(NAME, lambda status: status["replicas"] == moved["parallelism"], what="driver with these slots")
        after = jobs.wait_until_ready(NAME)
        assert after["autoscaling"]["lastScaling"]["before"] == 1

        scaling(jobs, lambda status: status.get("lagSeconds", 99) < 5, what="job that has caught up")
        producer.rate = 0
    down = scaling(jobs, lambda status: status.get("parallelism") == 1, what="decision for one slot", within=600)
    last = jobs.wait_until_ready(NAME)

    assert down["lastScaling"]["rule"] == "Idle"
    assert processors(jobs) == "50m"
    assert last["savepoint"].get("lastCompleted") is None
    thing = jobs.namespace.get("StreamJob", NAME)
    assert thing is not None
    assert (thing["spec"]["parallelism"], thing["metadata"]["generation"]) == (1, 1)
    assert jobs.events(NAME, "ScaledUp")
    assert jobs.events(NAME, "ScaledDown")
    check_output(kafka, producer.written)


def test_a_job_follows_its_load_by_executors_without_a_new_driver(
    jobs: StreamJobs, controller: ControllerProcess, kafka: KafkaServer
) -> None:
    jobs.apply(
        NAME,
        job=shouting(kafka, TIME, most=1600),
        maxParallelism=PARTITIONS,
        driver=SMALL,
        executor=SMALL,
        volumes=[],
        checkpointing={"location": jobs.namespace.location, "interval": "5s"},
        restartPolicy={"onFailureRetryInterval": "1s"},
        autoscaling={"mode": "Act", "max": 4, "maxLag": "30s", "scaleDownDelay": "3m"},
    )
    with Producer(kafka) as producer:
        producer.rate = SLOW
        jobs.wait_until_ready(NAME)
        scaling(jobs, lambda status: status.get("state") == "Steady", what="steady job")
        (driver,) = uids(jobs, "driver").items()

        for rate in (SLOW * 2, SLOW * 4, FAST):
            producer.rate = rate
            time.sleep(20)
        moved = scaling(jobs, lambda status: status.get("parallelism", 1) > 1, what="decision for more executors")
        assert moved["means"] == "Executors"
        controller.kill()
        controller.start_again()
        wider = jobs.wait(
            NAME,
            lambda status: status["executors"]["ready"] == status["autoscaling"]["parallelism"] > 1,
            what="more executors",
        )
        assert (driver,) == tuple(uids(jobs, "driver").items())
        assert wider["jobStatus"]["attempt"] == 1
        jobs.namespace.delete("Pod", sorted(uids(jobs, "executor"))[0], grace=0)
        scaling(jobs, lambda status: status.get("lagSeconds", 99) < 5, what="job that has caught up", within=600)
        producer.rate = 0
    scaling(jobs, lambda status: status.get("parallelism") == 1, what="decision for one executor", within=600)
    last = jobs.wait(NAME, lambda status: status["executors"]["desired"] == 1, what="one executor")

    assert last["jobStatus"]["attempt"] == 1
    assert (driver,) == tuple(uids(jobs, "driver").items())
    check_output(kafka, producer.written)


def test_a_job_follows_its_load_in_place_and_a_full_node_limits_it(
    jobs: StreamJobs, controller: ControllerProcess, kafka: KafkaServer
) -> None:
    jobs.apply(
        NAME,
        job=shouting(kafka, WORK, most=1600),
        maxParallelism=PARTITIONS,
        driver={**jobs.namespace.driver, "memory": "1536m"},
        checkpointing={"location": jobs.namespace.location, "interval": "5s"},
        restartPolicy={"onFailureRetryInterval": "1s"},
        autoscaling={
            "mode": "Act",
            "max": 4,
            "maxLag": "30s",
            "scaleDownDelay": "6m",
            "cpuPerSlot": "200m",
            "means": ["InPlace"],
        },
    )
    with Producer(kafka) as producer:
        producer.rate = 10
        jobs.wait_until_ready(NAME)
        scaling(jobs, lambda status: status.get("state") == "Steady", what="steady job")
        (driver,) = uids(jobs, "driver").items()
        assert processors(jobs) == "200m"

        spike(producer, jobs)
        controller.kill()
        controller.start_again()
        jobs.wait(NAME, lambda status: processors(jobs) != "200m", what="driver with more processors")
        scaling(jobs, lambda status: status.get("lagSeconds", 99) < 5, what="job that has caught up", within=600)
        assert jobs.events(NAME, "Resized")
        producer.rate = 0
        scaling(jobs, lambda status: status.get("parallelism") == 1, what="decision for one slot", within=600)
        jobs.wait(NAME, lambda status: processors(jobs) == "200m", what="driver with fewer processors")
        assert (driver,) == tuple(uids(jobs, "driver").items())
        assert jobs.status(NAME)["jobStatus"]["attempt"] == 1

        with full_node(jobs.namespace):
            spike(producer, jobs)
            limited = scaling(jobs, lambda status: status.get("state") == "Limited", what="limited job")
            assert "cannot have the processors" in limited["limit"]
            assert limited["limit"] in limited["reason"]
            assert jobs.events(NAME, "ScalingLimited")
        producer.rate = 0
    assert (driver,) == tuple(uids(jobs, "driver").items())
    check_output(kafka, producer.written)


def spike(producer: Producer, jobs: StreamJobs) -> None:
    """Let more arrive than one slot processes until the decision is made for more of them."""
    slow = scaling(jobs, lambda status: status.get("capacity"), what="known capacity")
    producer.rate = max(30, min(FAST, round(slow["capacity"] * 1.8)))
    scaling(
        jobs,
        lambda status: status.get("parallelism", 1) > 1 or status.get("state") == "Limited",
        what="decision for more slots",
    )
