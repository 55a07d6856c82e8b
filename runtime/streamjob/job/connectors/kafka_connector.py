"""The record of Kafka: its source and its sink."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from streamjob.job.connectors import kafka_end, kafka_sink, kafka_source
from streamjob.job.connectors.connector import BOTH_DELIVERIES, AsSink, AsSource, Connector, OptionProblem
from streamjob.job.connectors.datasets import Dataset, Values, first_host

if TYPE_CHECKING:
    from streamjob.job.model.spec import SinkSpec, SourceSpec


def _of_source(source: SourceSpec) -> Iterator[OptionProblem]:
    yield from kafka_end.problems(source.options, bounded=source.bounded)
    yield from kafka_source.problems(source.options)


def _of_sink(sink: SinkSpec) -> Iterator[OptionProblem]:
    if sink.delivery != "exactly-once":
        yield from kafka_sink.delivery_problems(sink.options)
        return
    yield from kafka_sink.problems(sink.options)
    yield from kafka_sink.encoding_problems(sink.options, encodes_key=sink.key is not None)


def _datasets(value: Values) -> Iterator[Dataset]:
    namespace = f"kafka://{first_host(value(kafka_source.SERVERS) or '', 9092)}"
    return (Dataset(namespace, topic) for topic in _topics(value))


def _topics(value: Values) -> Iterator[str]:
    """Yield the topics of a source or sink; a pattern stands for those that it matches."""
    if (topic := value("topic") or value("subscribePattern")) is not None:
        yield topic
    yield from (each.strip() for each in (value("subscribe") or "").split(",") if each.strip())
    if (assigned := value("assign")) is not None:
        try:
            partitions = json.loads(assigned)
        except ValueError:
            return
        if isinstance(partitions, dict):
            yield from map(str, partitions)


CONNECTOR = Connector(
    name=kafka_source.FORMAT,
    source=AsSource(
        schema="refused",
        columns={
            "key": "binary", "value": "binary", "topic": "string", "partition": "int", "offset": "bigint",
            "timestamp": "timestamp", "timestampType": "int", "headers": "array",
        },
        bounded=True,
        records=True,
        options=kafka_source.KafkaSourceFields,
        problems=_of_source,
    ),
    sink=AsSink(
        deliveries=BOTH_DELIVERIES,
        upserts=True,
        batches=True,
        output_modes=("append", "update"),
        options=kafka_sink.KafkaSinkFields,
        problems=_of_sink,
    ),
    jar="spark-sql-kafka-0-10",
    datasets=_datasets,
)  # fmt: skip
