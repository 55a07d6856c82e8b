"""Calls the systems that a job reads and writes as its start does, and changes nothing there.

The first call of each client takes Java a second, as it has to load the client. A process that prepares a start makes
these calls beforehand.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from streamjob.comparison.verdicts import Finding
from streamjob.ids import Epoch
from streamjob.job.loading.load import LoadedJob
from streamjob.job.planning.plan import ChainPlan, plan
from streamjob.protocol.log.records import JobId
from streamjob.store.local import LocalStore
from streamjob.store.staging import StoreStaging
from streamjob_runtime.job.assembly import Assembler
from streamjob_runtime.kafka.newest import read_newest
from streamjob_runtime.kafka.source_checks import check_sources, kafka_inputs
from streamjob_runtime.restoring.restoration import Restoration, Workdir
from streamjob_runtime.sinks.factory import SinkSurroundings, make_sink
from streamjob_runtime.sinks.rehearsing import rehearse_sink
from streamjob_runtime.spark.gateway import frame_without_rows
from streamjob_runtime.spark.job_files import JobFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamjob_runtime.chain.dataflow import Dataflow


_TIMES = 3
"""How often each source is read: meanwhile Java compiles some of the code."""


def connect(
    loaded: LoadedJob,
    job: JobId,
    spark: SparkSession,
    files: JobFiles,
    directory: Path,
) -> None:
    """Ask Kafka about the job's sources, read a record of each, plan its chains, and rehearse its sinks.

    Args:
        spark: a session of its own.
        files: gives directories the names by which Spark knows them.
        directory: an unused directory below that of `files`.

    Raises:
        StreamJobError: a system refuses something, which the start would report.
        PySparkException: Spark refuses something, which the start would report.
    """
    # The end of a bounded source is fixed when the job starts.
    unbounded = tuple(each.model_copy(update={"bounded": False}) for each in loaded.spec.sources)
    loaded = replace(loaded, spec=loaded.spec.model_copy(update={"sources": unbounded}))
    planned = plan(loaded.spec)
    check_sources(spark, loaded, planned, None)
    for source in kafka_inputs(loaded, planned, None):
        for _ in range(_TIMES):
            read_newest(spark, source)
    epoch, store = Epoch(0), LocalStore(directory.absolute() / "store")
    surroundings = SinkSurroundings(
        job.name,
        job.namespace,
        epoch,
        loaded.directory,
        staging=lambda sink: StoreStaging(store, sink, epoch, directory / "staging" / sink),
        spark=lambda: spark,
    )

    def rehearse(chain: ChainPlan, dataflow: Dataflow) -> Iterator[Finding]:
        rows = frame_without_rows(spark, dataflow.output.schema)
        for spec in chain.sinks:
            sink, context = make_sink(spec, surroundings)
            rehearse_sink(sink, context, rows)
        return iter(())

    workdir = Workdir(directory / "epoch", None, files)
    Assembler(loaded, planned, Restoration(planned, None, workdir), workdir, time.time).judge(spark, rehearse)
