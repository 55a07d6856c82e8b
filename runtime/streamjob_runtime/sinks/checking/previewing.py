"""Asks sinks whether they could be opened, for a check without side effects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from streamjob.comparison.verdicts import Finding, Kind, refused
from streamjob.errors import StreamJobError
from streamjob.ids import CheckpointId, OperatorUid
from streamjob.job.model.spec import SinkSpec
from streamjob.sink import KnowsPublished, Previews
from streamjob_runtime.sinks.factory import SinkSurroundings, make_sink

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def preview_sinks(
    sinks: Iterable[SinkSpec], surroundings: SinkSurroundings, schema: StructType | None = None
) -> Iterator[Finding]:
    """Yield a refusal for each sink that a start would refuse; writes nothing.

    Args:
        schema: the columns of their rows; None if Spark was not asked and does not run.
    """
    for spec in sinks:
        try:
            sink, context = make_sink(spec, surroundings)
            if isinstance(sink, Previews):
                sink.preview(context, schema)
        except StreamJobError as error:
            yield refused(Kind.SINK, spec.uid, error)


def previewed_published(
    sinks: Iterable[SinkSpec], surroundings: SinkSurroundings
) -> Iterator[tuple[OperatorUid, CheckpointId | StreamJobError]]:
    """Yield the checkpoint that each sink published last, of those that know it without being opened, or its error.

    Sinks that a start would refuse for other reasons are left out.
    """
    for spec in sinks:
        try:
            sink, context = make_sink(spec, surroundings)
            if not (isinstance(sink, Previews) and isinstance(sink, KnowsPublished)):
                continue
            sink.preview(context, None)
        except StreamJobError:
            continue
        try:
            newest = sink.newest_published()
        except StreamJobError as error:
            yield spec.uid, error
        else:
            if newest is not None:
                yield spec.uid, newest
        finally:
            sink.close()
