"""Plans a streaming query as its next batch would, without starting it: Spark describes its state, and judges it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from streamjob.ids import BatchId
from streamjob.snapshot.state_form import StateForm
from streamjob_runtime.spark.checkpoint_dir.logs import read_offsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streamjob_runtime.chain.dataflow import Dataflow

_FORMS = TypeAdapter(tuple[StateForm, ...])
_DEFAULTS = (12, 13, 14)
"""The parameters of Spark's IncrementalExecution, counted from 1, that are left as they are."""


def describe_state(spark: SparkSession, dataflow: Dataflow, checkpoint: Path) -> None:
    """Let Spark describe the state that a query keeps, below `state/` in an empty checkpoint directory."""
    _plan(spark, dataflow, checkpoint, BatchId(0), _first_batch(spark))


def describe_forms(spark: SparkSession, frame: DataFrame, output_mode: str) -> tuple[StateForm, ...]:
    """Return in which forms a query keeps its state, in the order in which Spark numbers its stateful operators.

    Args:
        spark: the session.
        frame: the query's result.
        output_mode: the query's output mode.
    """
    forms = spark._jvm.io.streamjob.StateForms  # type: ignore[union-attr]
    if not forms.mayKeep(frame._jdf.queryExecution().analyzed()):
        return ()
    # Nothing is read or written there: state is looked for when the plan is made, behind the optimizer.
    planned = _execution(spark, frame, output_mode, Path("/nowhere"), BatchId(0), _first_batch(spark))
    return _FORMS.validate_json(forms.describe(planned.optimizedPlan()))


def what_spark_refuses(spark: SparkSession, dataflow: Dataflow, checkpoint: Path, batch: BatchId) -> str | None:
    """Return why Spark would not go on with a query from a restored checkpoint; None if it would.

    Args:
        spark: the session.
        dataflow: the query.
        checkpoint: the checkpoint.
        batch: its last committed batch.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        _plan(spark, dataflow, checkpoint, BatchId(batch + 1), read_offsets(checkpoint, batch).metadata)
    except PySparkException as error:
        return str(error).split("\n\nJVM stacktrace", 1)[0].strip()
    except Py4JJavaError as error:
        return str(error.java_exception.getMessage()).strip()
    return None


def _plan(spark: SparkSession, dataflow: Dataflow, checkpoint: Path, batch: BatchId, metadata: dict[str, Any]) -> None:
    _execution(spark, dataflow.output, dataflow.output_mode, checkpoint, batch, metadata).executedPlan()


def _first_batch(spark: SparkSession) -> dict[str, Any]:
    conf = {"spark.sql.shuffle.partitions": str(spark.conf.get("spark.sql.shuffle.partitions"))}
    return {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": conf}


def _execution(
    spark: SparkSession, output: DataFrame, mode: str, checkpoint: Path, batch: BatchId, metadata: dict[str, Any]
) -> Any:
    jvm: Any = spark._jvm
    streaming = jvm.org.apache.spark.sql.execution.streaming
    execution = streaming.runtime.IncrementalExecution
    run = jvm.java.util.UUID.randomUUID()
    frame = output._jdf
    return execution(
        frame.sparkSession(),
        frame.queryExecution().analyzed(),
        getattr(jvm.org.apache.spark.sql.streaming.OutputMode, mode.capitalize())(),
        str(checkpoint.absolute() / "state"),
        run,
        run,
        int(batch),
        jvm.scala.Option.empty(),
        streaming.checkpointing.OffsetSeqMetadata.apply(json.dumps(metadata)),
        streaming.runtime.WatermarkPropagator.noop(),
        True,
        *(getattr(execution, f"$lessinit$greater$default${number}")() for number in _DEFAULTS),
        False,
        False,
    )
