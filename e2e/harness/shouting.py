"""A job from topic to topic whose records cost an effort: its output shows whether a record is lost or doubled."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from e2e.harness.cluster import Object
from e2e.harness.controller import StreamJobs
from tests.servers.kafka import KafkaServer

NAME = "shouting"
PARTITIONS = 8
"""Of each topic, and of the job's state if it has any."""
NO_EFFORT = "''"
TIME = "left(reflect('java.lang.Thread', 'sleep', 5L), 0)"
"""5 ms, but no processor: a slot processes at most 200 records per second."""
WORK = "left(sha2(repeat(CAST(value AS STRING), 60000), 512), 0)"
"""Processors, and no time beside it."""


def apply(jobs: StreamJobs, kafka: KafkaServer, effort: str, *, most: int = 1600, **spec: Any) -> None:
    """Create the job.

    Args:
        jobs: the StreamJobs of the scenario's namespace.
        kafka: the broker.
        effort: the cost of each record, as an expression of SQL that is an empty text.
        most: records of a batch.
        spec: fields to add to the spec, or to replace.
    """
    wanted: dict[str, Any] = {
        "job": shouting(kafka, effort, most),
        "maxParallelism": PARTITIONS,
        # Each slot has a producer with buffers of its own.
        "driver": {**jobs.namespace.driver, "memory": "1536m"},
        "checkpointing": {"location": jobs.namespace.location, "interval": "5s"},
        "restartPolicy": {"onFailureRetryInterval": "1s"},
    }
    jobs.apply(NAME, **{**wanted, **spec})


def shouting(kafka: KafkaServer, effort: str, most: int) -> Object:
    """Return the job; see `apply`."""
    broker = {"kafka.bootstrap.servers": kafka.bootstrap}
    source = {"subscribe": "words", "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(most)}
    query = f"SELECT key, concat(upper(CAST(value AS STRING)), {effort}) AS value FROM words"
    return {
        "sources": [{"name": "words", "format": "kafka", "options": {**broker, **source}}],
        "operators": [{"name": "shouts", "inputs": ["words"], "sql": query}],
        "sinks": [{"name": "out", "input": "shouts", "format": "kafka", "options": {**broker, "topic": "shouts"}}],
    }


class Producer:
    """Writes words to the topic, at the rate that the scenario sets.

    Args:
        kafka: the broker.
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

    def write(self, count: int) -> None:
        """Write the next words at once; only while the rate is 0."""
        self._kafka.produce("words", words(self.written, self.written + count))
        self.written += count

    def _run(self) -> None:
        last, due = time.monotonic(), 0.0
        while not self._ended.wait(1.0):
            now = time.monotonic()
            due += self.rate * (now - last)
            last, count = now, int(due)
            due -= count
            if count:
                self.write(count)


def check_output(kafka: KafkaServer, number: int) -> None:
    """Wait until as many words are shouted, and compare them with those of a batch."""
    found = Counter(wait_for_shouts(kafka, lambda shouts: len(shouts) >= number, within=240, every=3))
    wanted = Counter(word.upper() for _, word in words(0, number))
    assert (wanted - found).total() == 0, f"missing: {list(wanted - found)[:5]}"
    assert (found - wanted).total() == 0, f"more than once, or wrong: {list(found - wanted)[:5]}"


def wait_for_shouts(
    kafka: KafkaServer, condition: Callable[[list[str]], object], *, within: float, every: float
) -> list[str]:
    """Wait until the committed shouts fulfil a condition, and return them.

    Args:
        kafka: the broker.
        condition: gets all of them.
        within: most seconds.
        every: seconds between two looks.
    """
    end = time.monotonic() + within
    while not condition(found := [(message.value or b"").decode() for message in kafka.consume("shouts")]):
        assert time.monotonic() < end, f"the committed rows stayed at {len(found)}"
        time.sleep(every)
    return found


def times(kafka: KafkaServer) -> list[float]:
    """Return when each row was published, in seconds since 1970; before, rows wait in the store."""
    return sorted(message.timestamp / 1000 for message in kafka.consume("shouts"))


def standstill(kafka: KafkaServer, since: float) -> float:
    """Return the longest time between published rows, from the last one before a moment on, in seconds."""
    published = times(kafka)
    last = max(each for each in published if each < since)
    return max(after - before for before, after in pairwise(each for each in published if each >= last))


def wait_for_new_shouts(kafka: KafkaServer, since: float) -> None:
    """Wait for a row that was published after a moment, in seconds since 1970."""
    wait_for_shouts(kafka, lambda _shouts: times(kafka)[-1] > since, within=120, every=0.5)


def words(start: int, end: int) -> list[tuple[str, str]]:
    """Return the keys and values of some of the words."""
    return [(str(number), f"word {number}") for number in range(start, end)]
