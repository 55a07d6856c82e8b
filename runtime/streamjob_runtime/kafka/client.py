"""Kafka's own client, in Spark's Java: its settings, and what its errors mean."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from streamjob.errors import StreamJobError
from streamjob.job.kafka import CLIENT
from streamjob.job.options import redacted
from streamjob_runtime.kafka.explaining import Cause, read_causes


def client_settings(options: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that a source's options have for the client: those that begin with `kafka.`, without that.

    Names may be in any case, as Spark's connector has them.
    """
    names = {key: key.lower() for key in options}
    return {name.removeprefix(CLIENT): options[key] for key, name in names.items() if name.startswith(CLIENT)}


@contextmanager
def explaining(
    jvm: Any, secrets: Collection[str], explain: Callable[[tuple[Cause, ...]], StreamJobError]
) -> Iterator[None]:
    """Raise what an error of the client means, instead of it.

    Args:
        jvm: Spark's Java.
        secrets: what the error may not show.
        explain: returns what the causes of an error mean, outermost first.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors.exceptions.captured import CapturedException

    try:
        yield
    except (Py4JJavaError, CapturedException) as error:
        thrown = error.java_exception if isinstance(error, Py4JJavaError) else error._origin
        causes = read_causes(jvm.io.streamjob.KafkaClients.causes(thrown))
        # The rest of Java's message is a page long, and may contain an option's secret.
        raise explain(tuple(replace(each, message=redacted(each.message, secrets)) for each in causes)) from None
