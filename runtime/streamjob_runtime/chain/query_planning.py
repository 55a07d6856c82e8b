"""Plans a streaming query like its next batch, without starting it: Spark describes its state, and checks it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from streamjob.ids import BatchId
from streamjob.snapshot.state_form import StateForm
from streamjob_runtime.spark.checkpoint_dir.logs import read_offsets
from streamjob_runtime.spark.gateway import analyzed_plan, execution_of_batch, java_errors, our_java, thrown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streamjob_runtime.chain.dataflow import Dataflow

_FORMS = TypeAdapter(tuple[StateForm, ...])


def describe_state(spark: SparkSession, dataflow: Dataflow, checkpoint: Path) -> None:
    """Let Spark describe the state that a query keeps, below `state/` in an empty checkpoint directory."""
    _plan(spark, dataflow, checkpoint, BatchId(0), _first_batch(spark))


def describe_forms(spark: SparkSession, frame: DataFrame, output_mode: str) -> tuple[StateForm, ...]:
    """Return the forms of a query's state, in the order of Spark's numbers of its stateful operators.

    Args:
        spark: the session.
        frame: the query's result.
        output_mode: the query's output mode.
    """
    forms = our_java(spark).StateForms
    if not forms.mayKeep(analyzed_plan(frame)):
        return ()
    # Nothing is read or written there: state is accessed when the physical plan is made.
    planned = execution_of_batch(spark, frame, output_mode, Path("/nowhere"), 0, _first_batch(spark))
    return _FORMS.validate_json(forms.describe(planned.optimizedPlan()))


def what_spark_refuses(spark: SparkSession, dataflow: Dataflow, checkpoint: Path, batch: BatchId) -> str | None:
    """Return why Spark would not continue a query from a restored checkpoint; None if it would.

    Args:
        spark: the session.
        dataflow: the query.
        checkpoint: the checkpoint.
        batch: its last committed batch.
    """
    from pyspark.errors import PySparkException

    try:
        _plan(spark, dataflow, checkpoint, BatchId(batch + 1), read_offsets(checkpoint, batch).metadata)
    except PySparkException as error:
        return str(error).split("\n\nJVM stacktrace", 1)[0].strip()
    except java_errors() as error:
        return str(thrown(error).getMessage()).strip()
    return None


def _plan(spark: SparkSession, dataflow: Dataflow, checkpoint: Path, batch: BatchId, metadata: dict[str, Any]) -> None:
    state = checkpoint.absolute() / "state"
    execution_of_batch(spark, dataflow.output, dataflow.output_mode, state, batch, metadata).executedPlan()


def _first_batch(spark: SparkSession) -> dict[str, Any]:
    conf = {"spark.sql.shuffle.partitions": str(spark.conf.get("spark.sql.shuffle.partitions"))}
    return {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": conf}
