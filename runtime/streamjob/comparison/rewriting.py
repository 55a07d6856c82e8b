"""Which state can be rewritten for another number of partitions, and whether it came through unchanged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from streamjob.errors import CannotRestore

REWRITABLE = frozenset(
    {
        "stateStoreSave",
        "sessionWindowStateStoreSaveExec",
        "dedupe",
        "dedupeWithinWatermark",
        "symmetricHashJoin",
        "applyInPandasWithState",
        "transformWithStateInPySparkExec",
    }
)
"""Spark's names of the operators whose state is rewritten: all that keep it by key."""

JOIN_FORMAT = 2
"""The state format of joins that is rewritten as it is: Spark 4.3 reports success on format 4, and loses rows."""


class StateNotRewritable(CannotRestore):
    """An operator's state cannot be rewritten for another number of partitions."""


class StateRewrittenWrongly(CannotRestore):
    """Rewritten state is not what it was made of, or not where Spark looks for it."""


@dataclass(frozen=True, slots=True)
class StatefulOperator:
    """What tells whether an operator's state can be rewritten.

    Args:
        label: what messages call it: `symmetricHashJoin 0 of chain 'report'`.
        name: what Spark calls it.
        join_format: the format of joins that the chain's checkpoint is bound to.
        keyed: whether its state is by key; a total over all rows is not.
    """

    label: str
    name: str
    join_format: int
    keyed: bool


@dataclass(frozen=True, slots=True)
class Contents:
    """What is in a column family of a state store.

    Args:
        rows: how many keys and values.
        checksum: the sum of the hashes of each key with its value.
        misplaced: rows that are not in the partition in which Spark looks for their key.
    """

    rows: int
    checksum: int
    misplaced: int


def check_rewritable(operators: Iterable[StatefulOperator], partitions: int) -> None:
    """Refuse what cannot be rewritten.

    Raises:
        StateNotRewritable: for the first such operator.
    """
    for operator in operators:
        reason = _reason(operator)
        if reason is not None:
            raise StateNotRewritable(
                f"The state of {operator.label} cannot be rewritten for {partitions} partitions: {reason}",
                "remove maxParallelism to continue with the number of the state",
            )


def check_unchanged(
    label: str, before: Mapping[tuple[str, str], Contents], after: Mapping[tuple[str, str], Contents]
) -> int:
    """Check that rewritten state is what it was made of, where it belongs; return its rows.

    Args:
        label: whose state it is, for messages.
        before: what there was, by state store and column family.
        after: what there is.

    Raises:
        StateRewrittenWrongly: it is not.
    """
    for place in sorted({*before, *after}):
        was, now = before.get(place, _NOTHING), after.get(place, _NOTHING)
        if now.misplaced or (was.rows, was.checksum) != (now.rows, now.checksum):
            raise StateRewrittenWrongly(
                f"The state of {label} was not rewritten as it was: its store {' '.join(place)} had {was.rows} rows "
                f"with the checksum {was.checksum}, and has {now.rows} with {now.checksum}, {now.misplaced} of them "
                "in the wrong partition",
                "remove maxParallelism to continue with the number of the state: the snapshot is as it was",
            )
    return sum(each.rows for each in after.values())


_NOTHING = Contents(0, 0, 0)


def _reason(operator: StatefulOperator) -> str | None:
    if operator.name not in REWRITABLE:
        return f"Spark has no way to rewrite a {operator.name}"
    if operator.name == "symmetricHashJoin" and operator.join_format != JOIN_FORMAT:
        return f"it is in join state format {operator.join_format}, which Spark does not rewrite as it is"
    if not operator.keyed:
        return "it has no key, and Spark would move it to a partition where the query does not look"
    return None
