"""Lets a restored file source compact its log at entries that fit the existing ones.

Every k-th entry of the log of a file source is a `.compact`, and Spark finds k from the files that are there: it is the
distance between the two newest ones. If there is only one, Spark derives k from its number and from a setting
(`CompactibleFileStreamLog.deriveCompactInterval`). A cut holds only the newest one. So Spark derives k = 20 from
`19.compact`, although it was 10, and writes the plain entry 49. From `39.compact` it derives 10, looks for
`49.compact`, and the query fails. An empty file in the place of the former compaction tells k. Spark counts it, and
never reads it: everything is in the newest one and behind it.
"""

from __future__ import annotations

from pathlib import Path

from streamjob_runtime.spark.checkpoint_dir.sources import log_entries

INTERVAL = "spark.sql.streaming.fileSource.log.compactInterval"
"""Spark's setting of the interval that a new log gets."""
DEFAULT_INTERVAL = 10


def settle_intervals(checkpoint: Path, wanted: int = DEFAULT_INTERVAL) -> None:
    """Tell the file sources of a checkpoint that is restored, and not in use yet, their intervals.

    Args:
        checkpoint: its directory.
        wanted: the interval that a new log gets; a log does not get a shorter one, if it can be helped.
    """
    for source in checkpoint.glob("sources/*"):
        former = former_compaction([each.name for each in source.iterdir()], wanted)
        if former is not None:
            (source / f"{former}.compact").touch()


def former_compaction(names: list[str], wanted: int = DEFAULT_INTERVAL) -> int | None:
    """Return the number of the compaction that is to stand before the only one of a log; None if there is none.

    Args:
        names: the existing entries.
        wanted: the interval that a new log gets.
    """
    entries = log_entries(names)
    compactions = [number for number, name in entries.items() if name.endswith(".compact")]
    if len(compactions) != 1:
        return None
    (compacted,) = compactions
    behind = max(entries) - compacted
    fitting = (k for k in range(max(wanted, behind + 1), compacted + 1) if (compacted + 1) % k == 0)
    interval = next(fitting, compacted + 1)
    return compacted - interval if compacted >= interval else None
