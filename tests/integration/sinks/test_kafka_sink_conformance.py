"""The Kafka sink passes the kit on a real broker, and leaves no transaction open."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.sinks.damage import flipped
from tests.integration.sinks.topics import Topics

from streamjob.ids import BatchId, Key
from streamjob.sink import Sink, Staged
from streamjob.store.staging import StoreStaging
from streamjob.testing.sink_harness import Row
from streamjob.testing.sink_kit import SinkConformance
from streamjob_runtime.sinks.kafka.sink import KafkaSink
from streamjob_runtime.sinks.kafka.transactions import Producer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]


class JsonSink(KafkaSink):
    """Writes whole rows as JSON."""

    def stage(self, batch: DataFrame, batch_id: BatchId) -> Staged:
        from pyspark.sql.functions import struct, to_json

        keyed = batch.select(batch["id"].cast("string").alias("key"), to_json(struct("*")).alias("value"))
        return super().stage(keyed, batch_id)


class TestKafka(SinkConformance):
    effects = (
        *((Producer, name) for name in ("open", "begin", "send", "commit", "close")),
        (StoreStaging, "delete"),
    )

    @pytest.fixture(autouse=True)
    def _topics(self, topics: Topics) -> Iterator[None]:
        topics.store = self.store
        topics.job = "sink-kit"
        self.topics = topics
        yield
        for sink in topics.sinks:
            sink.close()
        assert topics.open_transactions() == []

    def make_sink(self, place: Path) -> Sink:
        sink = JsonSink("report", lambda: self.spark)
        self.topics.sinks.append(sink)
        return sink

    def options(self, place: Path) -> Mapping[str, str]:
        return self.topics.options()

    def visible_rows(self, place: Path) -> Sequence[Row]:
        found = [json.loads(message.value or b"") for message in self.topics.read()]
        return [
            (
                row["id"],
                row.get("name"),
                None if row.get("amount") is None else Decimal(str(row["amount"])),
                row.get("ratio"),
                row.get("flag"),
                row.get("day") and datetime.date.fromisoformat(row["day"]),
                row.get("at") and datetime.datetime.fromisoformat(row["at"]).replace(tzinfo=None),
            )
            for row in found
        ]

    def consume(self, place: Path) -> None:
        self.topics.empty()

    def lose_staged(self, place: Path) -> None:
        self.store.delete([Key(key) for key in self.topics.staged_objects()])

    def damage_staged(self, place: Path) -> None:
        key = Key(next(iter(self.topics.staged_objects())))
        self.store.put(key, flipped(self.store.get(key)))

    def leftovers(self, place: Path) -> int:
        return len(self.topics.staged_objects())

    def keep(self, place: Path) -> Callable[[], None]:
        assert self.topics.read("read_uncommitted") == []

        def bring_back() -> None:
            self.topics.empty()
            self.topics.forget()

        return bring_back
