"""Options that mean nothing: methods of PySpark's readers and writers, and misspelt names where all are known.

Spark passes the options of a part to its connector, which ignores those that it does not have. Only few connectors have
a list of all of theirs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from streamjob.job.connectors.connector import OptionProblem
from streamjob.job.connectors.options import option
from streamjob.job.model.suggest import did_you_mean

_WHEN = "leave it out: checkpointing.interval says how often rows appear"
_APPENDS = (
    "leave it out: the sink appends rows; delta, iceberg, kafka and postgresql replace rows with mode: upsert, and all "
    "but kafka whole tables with mode: replace"
)
_BESIDE = "write it beside options"

OF_ALL: Mapping[str, str] = {
    "availableNow": _WHEN,
    "checkpointLocation": "leave it out: the job's checkpoints are at checkpointing.location",
    "continuous": _WHEN,
    "format": _BESIDE,
    "once": _WHEN,
    "outputMode": "write outputMode at the operator that the sink reads",
    "processingTime": _WHEN,
    "queryName": "leave it out: the part has a name",
    "schema": _BESIDE,
    "trigger": _WHEN,
}
"""What no source, table or sink has as an option, with the fixes."""
OF_SINKS: Mapping[str, str] = {
    **OF_ALL,
    "mode": _APPENDS,
    "overwriteSchema": _APPENDS,
    "partitionBy": _BESIDE,
    "partitionOverwriteMode": _APPENDS,
    "replaceWhere": _APPENDS,
    "retention": "leave it out: files stay until somebody removes them",
    "saveMode": _APPENDS,
}
"""What no sink of Spark's has as an option, with the fixes."""


def misplaced(
    options: Mapping[str, str], known: Collection[str] | None, refused: Mapping[str, str]
) -> Iterator[OptionProblem]:
    """Yield problems with the names of options, with fixes.

    Args:
        known: the names of all options; None if nobody knows them.
        refused: names of no option, with the fixes.
    """
    for name in options:
        if (fix := option(refused, name)) is not None:
            yield OptionProblem(f"has the option {name!r}, which means nothing there", fix)
        elif known is not None and option(dict.fromkeys(known, ""), name) is None:
            yield OptionProblem(f"has no option {name!r}", did_you_mean(name, known, "options"))
