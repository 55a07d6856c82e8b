"""Begins to say what a job reads and writes, if the environment asks for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version

from streamjob.extras import from_extra
from streamjob_runtime.job.runner import Runner
from streamjob_runtime.lineage.content import LineageOfJob, Schema
from streamjob_runtime.lineage.datasets import datasets_of
from streamjob_runtime.lineage.exporting import LineageExport
from streamjob_runtime.lineage.settings import lineage_settings

_LAST_SECONDS = 5.0
"""How long a job that ends waits until its last event is sent."""


@contextmanager
def lineage_of(runner: Runner, environ: Mapping[str, str]) -> Iterator[LineageExport | None]:
    """Give what says the lineage of a job, and send its last events at the end; None if nobody asks for it.

    Args:
        environ: the environment, with OpenLineage's variables.

    Raises:
        InvalidLineageSetting: a variable has no valid value.
        MissingExtra: OpenLineage's client is not installed.
    """
    settings = lineage_settings(environ)
    if settings is None:
        yield None
        return
    with from_extra("OPENLINEAGE_URL", "lineage"):
        from streamjob_runtime.lineage.events import event
        from streamjob_runtime.lineage.sending import Sender

    job = runner.job
    spec, directory = job.loaded.spec, job.loaded.directory
    whole = f"{job.namespace}.{job.name}"
    known = LineageOfJob(
        namespace=settings.namespace or job.namespace,
        name=job.name,
        identity=runner.location,
        spec=spec,
        datasets={part.name: datasets_of(part, whole, directory, environ) for part in spec.connectors()},
        spark=version("pyspark"),
        interval=round(settings.interval),
        parent=settings.parent,
    )
    sender = Sender(settings.url, settings.api_key)
    try:
        yield LineageExport(
            settings.interval, lambda moment: sender.send(event(known, moment)), partial(_schemas, runner)
        )
    finally:
        sender.close(_LAST_SECONDS)


def _schemas(runner: Runner) -> dict[str, Schema]:
    """Return the columns that each sink gets, by name, of the chains that run."""
    epoch = runner.epoch
    found: dict[str, Schema] = {}
    for plan in runner.job.plan.chains:
        chain = None if epoch is None else epoch.chains.get(plan.uid)
        if chain is not None and plan.sinks:
            fields = chain.dataflow.output.schema.fields
            schema = [(each.name, each.dataType.simpleString()) for each in fields]
            found.update({sink.name: schema for sink in plan.sinks})
    return found
