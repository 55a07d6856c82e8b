"""Computes the join of a stream with the highest values of its own windows as an aggregation: see `SelfJoins.java`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from streamjob.stored.state_owners import KINDS
from streamjob_runtime.chain.query_planning import describe_forms
from streamjob_runtime.spark.gateway import frame_of, java_frame, our_java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_JOIN = "join"


def without_self_join(spark: SparkSession, frame: DataFrame, output_mode: str, state: Sequence[str]) -> DataFrame:
    """Return a query's result, computed without such a join.

    The result stays as it is if it has no such join, or if the state that the query continues is that of the join.

    Args:
        frame: the query's result; nothing reads its event time.
        output_mode: the query's output mode.
        state: Spark's names of the stateful operators whose state the query continues.
    """
    made = our_java(spark).SelfJoins.aggregated(java_frame(frame))
    if made is None:
        return frame
    kept = [KINDS.get(name) for name in state].count(_JOIN)
    if kept and kept == [form.kind for form in describe_forms(spark, frame, output_mode)].count(_JOIN):
        return frame
    return frame_of(spark, made)
