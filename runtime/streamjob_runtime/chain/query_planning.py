"""Plans a streaming query like its next batch, without starting it: Spark describes its state, and checks it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from streamjob.errors import InvalidInput
from streamjob.ids import BatchId, ChainUid
from streamjob.snapshot.state_form import StateForm
from streamjob_runtime.spark.checkpoint_dir.logs import read_offsets
from streamjob_runtime.spark.gateway import (
    analyzed_plan,
    execution_of_batch,
    frame_of,
    java_errors,
    java_session,
    our_java,
    thrown,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streamjob_runtime.chain.dataflow import Dataflow

_FORMS = TypeAdapter(tuple[StateForm, ...])
_MISFITS = (
    "STATE_STORE_COLUMN_FAMILY_SCHEMA_INCOMPATIBLE",
    "STATE_STORE_INVALID_CONFIG_AFTER_RESTART",
    "STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION",
    "STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE",
    "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_STATE_SCHEMA_FILES_THRESHOLD_EXCEEDED",
    "STATE_STORE_VALUE_SCHEMA_EVOLUTION_THRESHOLD_EXCEEDED",
    "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
    "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
)
"""Spark's error conditions for stored state that does not fit a query."""


class StateNotPlanned(InvalidInput):
    """Spark cannot plan the state of a query, for another reason than the state of the snapshot."""


def describe_state(spark: SparkSession, chain: ChainUid, dataflow: Dataflow, checkpoint: Path) -> None:
    """Let Spark describe the state that a query keeps, below `state/` in an empty checkpoint directory.

    Raises:
        StateNotPlanned: Spark cannot plan the query; an operator may raise an error where it declares its state.
    """
    if (reason := _refusal(spark, dataflow, checkpoint, BatchId(0), _first_batch(spark))) is not None:
        raise _not_planned(chain, reason)


def describe_forms(spark: SparkSession, frame: DataFrame, output_mode: str) -> tuple[StateForm, ...]:
    """Plan a query's first batch; return the forms of its state, in the order of Spark's numbers of its operators.

    Raises:
        PySparkException, Py4JJavaError: Spark cannot plan any batch of it.
    """
    # Nothing is read or written there: state is accessed when Spark prepares a plan for its execution.
    planned = execution_of_batch(spark, frame, output_mode, Path("/nowhere"), 0, _first_batch(spark))
    our_java(spark).Watermarks.checkOneEventTime(planned.sparkPlan())
    forms = our_java(spark).StateForms
    if not forms.mayKeep(analyzed_plan(frame)):
        return ()
    return _FORMS.validate_json(forms.describe(planned.optimizedPlan()))


def initial_buffers(spark: SparkSession, dataflow: Dataflow, number: int) -> DataFrame:
    """Return one row with the buffers of an operator's aggregates before any input; without columns if it has none."""
    planned = execution_of_batch(
        spark, dataflow.output, dataflow.output_mode, Path("/nowhere"), 0, _first_batch(spark)
    ).optimizedPlan()
    return frame_of(spark, our_java(spark).StateRows.initial(java_session(spark), planned, number))


def why_state_does_not_fit(
    spark: SparkSession, chain: ChainUid, dataflow: Dataflow, checkpoint: Path, batch: BatchId
) -> str | None:
    """Return why Spark would not continue a query with the state of a restored checkpoint; None if it would.

    Args:
        batch: its last committed batch.

    Raises:
        StateNotPlanned: Spark refuses the query for another reason.
    """
    metadata = read_offsets(checkpoint, batch).metadata
    reason = _refusal(spark, dataflow, checkpoint, BatchId(batch + 1), metadata)
    if reason is not None and not tells_of_state(reason):
        raise _not_planned(chain, reason)
    return reason


def tells_of_state(reason: str) -> bool:
    """Return whether the text of Spark's error says that stored state does not fit."""
    return any(f"[{condition}" in reason for condition in _MISFITS)


def _not_planned(chain: ChainUid, reason: str) -> StateNotPlanned:
    return StateNotPlanned(
        f"Spark cannot plan the state of chain {chain!r}: {reason}",
        "correct the operator if the error is its own; otherwise start the job again",
    )


def _refusal(
    spark: SparkSession, dataflow: Dataflow, checkpoint: Path, batch: BatchId, metadata: dict[str, Any]
) -> str | None:
    from pyspark.errors import PySparkException

    try:
        _plan(spark, dataflow, checkpoint, batch, metadata)
    except PySparkException as error:
        return str(error).split("\n\nJVM stacktrace", 1)[0].strip()
    except java_errors() as error:
        return str(thrown(error).getMessage()).strip()
    return None


def _plan(spark: SparkSession, dataflow: Dataflow, checkpoint: Path, batch: BatchId, metadata: dict[str, Any]) -> None:
    # Spark describes the variables of `transformWithState` only for a batch that has an entry in the offset log.
    planned = checkpoint / "offsets" / str(batch)
    planned.parent.mkdir(parents=True, exist_ok=True)
    planned.touch()
    state = checkpoint.absolute() / "state"
    execution_of_batch(spark, dataflow.output, dataflow.output_mode, state, batch, metadata).executedPlan()


def _first_batch(spark: SparkSession) -> dict[str, Any]:
    conf = {"spark.sql.shuffle.partitions": str(spark.conf.get("spark.sql.shuffle.partitions"))}
    return {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": conf}
