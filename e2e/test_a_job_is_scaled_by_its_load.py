"""A producer steps up and goes silent: the controller gives the job more task slots, and takes them away again."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from e2e.harness.cluster import Cluster, Object
from e2e.harness.controller import ControllerProcess, StreamJobs
from tests.servers.kafka import KafkaServer

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1500)]

NAME = "shouting"
PARTITIONS = 8
TIME = "left(reflect('java.lang.Thread', 'sleep', 5L), 0)"
"""5 ms, but no processor."""
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
    found, wanted = (
        Counter(shouted(kafka, producer.written)),
        Counter(word.upper() for _, word in words(0, producer.written)),
    )
    assert (wanted - found).total() == 0, f"missing: {list(wanted - found)[:5]}"
    assert (found - wanted).total() == 0, f"more than once, or wrong: {list(found - wanted)[:5]}"
