"""The watermark of each input of a running query, which Spark keeps in memory only.

Spark persists one watermark a query, the smallest. After a restart an input that has ended, or is silent, has none, and
holds the query's watermark where it was: windows that were about to close stay open. So each input's own watermark is
in the manifest, and is put back inside the first batch after a restore.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from streamjob.ids import OperatorUid

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class InputWatermarks:
    """Reads and raises the watermarks of a query's inputs.

    Args:
        spark: the session that the query runs in.
        nodes: the id of each input's watermark node, see `watermark_node`.
    """

    def __init__(self, spark: SparkSession, nodes: Mapping[OperatorUid, str]) -> None:
        assert spark._jvm is not None
        self._jvm = spark._jvm.io.streamjob.Watermarks
        self._nodes = dict(nodes)
        self._inputs = {node: uid for uid, node in nodes.items()}

    def read(self, query: StreamingQuery) -> dict[OperatorUid, int]:
        """Return the watermark of each input that has had one, in milliseconds since 1970."""
        if not self._nodes:
            return {}
        pairs = self._jvm.read(query._jsq)
        result = {}
        for node, _, milliseconds in (pair.partition("=") for pair in pairs.split(",") if pair):
            if node in self._inputs:
                result[self._inputs[node]] = int(milliseconds)
        return result

    def advance(self, query: StreamingQuery, watermarks: Mapping[OperatorUid, int]) -> None:
        """Raise watermarks to the given ones, in milliseconds since 1970; call it inside a batch of the query only."""
        for uid, milliseconds in watermarks.items():
            if uid in self._nodes:
                self._jvm.advance(query._jsq, self._nodes[uid], milliseconds)


def watermark_node(frame: DataFrame) -> str:
    """Return the id of the watermark node of a DataFrame that `withWatermark` just returned."""
    node: str = frame._jdf.queryExecution().analyzed().nodeId().toString()
    return node
