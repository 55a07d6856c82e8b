"""Kafka's Java client inside Spark's JVM: its settings and errors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from streamjob.errors import StreamJobError
from streamjob.job.connectors.kafka_source import CLIENT, ISOLATION_LEVEL, READ_COMMITTED
from streamjob.job.connectors.options import option, redacted
from streamjob_runtime.kafka.explaining import Cause, read_causes
from streamjob_runtime.spark.gateway import java_errors, our_java, thrown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DEFAULTS = {
    ISOLATION_LEVEL: READ_COMMITTED,
    # A reader must not make an empty topic in the place of one that was deleted.
    f"{CLIENT}allow.auto.create.topics": "false",
}
_WAIT = {f"{CLIENT}fetch.max.wait.ms": "1"}


def client_settings(options: Mapping[str, str]) -> dict[str, str]:
    """Return the client settings in a source's options: those with the prefix `kafka.`, without the prefix.

    Names may be in any case, as in Spark's connector.
    """
    names = {key: key.lower() for key in options}
    return {name.removeprefix(CLIENT): options[key] for key, name in names.items() if name.startswith(CLIENT)}


def with_defaults(options: Mapping[str, str]) -> dict[str, str]:
    """Return options for reading topics, with our defaults where they differ from those of Kafka's consumer."""
    return _completed(options, _DEFAULTS)


def for_batches(options: Mapping[str, str]) -> dict[str, str]:
    """Return a source's options, with defaults, for a query that reads one batch after the other.

    The client asks for the records behind a batch at once, and the broker answers when there are some, or after
    `fetch.max.wait.ms`. The next batch can only ask for its own records after that answer, so each of its tasks would
    wait for up to the client's default of 500 ms. Between batches nobody asks, so a short wait costs nothing.
    """
    return _completed(options, {**_DEFAULTS, **_WAIT})


def _completed(options: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, str]:
    return {**options, **{name: value for name, value in defaults.items() if option(options, name) is None}}


@contextmanager
def explaining(
    spark: SparkSession, secrets: Collection[str], explain: Callable[[tuple[Cause, ...]], StreamJobError]
) -> Iterator[None]:
    """Translate errors of the client inside this context.

    Args:
        secrets: texts that the error must not show.
        explain: returns the error for a list of causes, outermost first.
    """
    try:
        yield
    except java_errors() as error:
        causes = read_causes(our_java(spark).KafkaClients.causes(thrown(error)))
        # The rest of Java's message is a page long, and may contain an option's secret.
        raise explain(tuple(replace(each, message=redacted(each.message, secrets)) for each in causes)) from None
