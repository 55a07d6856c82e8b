"""Decides which state can be rewritten for another number of partitions, and verifies the result."""

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
        "transformWithStateExec",
        "transformWithStateInPySparkExec",
    }
)
"""Spark's names of the operators whose state is rewritten: all those with keyed state."""

JOIN_FORMAT = 2
"""The state format of joins that is rewritten as is. With format 4, Spark 4.3 reports success and loses rows."""


_AS_IT_WAS = "remove maxParallelism to continue with the number of the state: the snapshot is as it was"


class StateNotRewritable(CannotRestore):
    """An operator's state cannot be rewritten for another number of partitions."""


class StateRewrittenWrongly(CannotRestore):
    """Rewritten state differs from the original, or is in the wrong partition."""


@dataclass(frozen=True, slots=True)
class StatefulOperator:
    """The facts that decide whether an operator's state can be rewritten.

    Args:
        label: its name in messages: `symmetricHashJoin 0 of chain 'report'`.
        name: Spark's name for it.
        join_format: the join format of the chain's checkpoint.
        keyed: whether its state has keys; a total over all rows does not.
    """

    label: str
    name: str
    join_format: int
    keyed: bool


@dataclass(frozen=True, slots=True)
class Contents:
    """The content of a column family of a state store.

    Args:
        rows: the number of keys with values.
        checksum: the sum of the hashes of each key with its value.
        misplaced: the number of rows outside the partition in which Spark looks for their key.
    """

    rows: int
    checksum: int
    misplaced: int


def check_rewritable(operators: Iterable[StatefulOperator], partitions: int) -> None:
    """Raise StateNotRewritable for the first operator whose state cannot be rewritten."""
    for operator in operators:
        reason = _reason(operator)
        if reason is not None:
            raise StateNotRewritable(
                f"The state of {operator.label} cannot be rewritten for {partitions} partitions: {reason}",
                "remove maxParallelism to continue with the number of the state",
            )


def check_unchanged(
    label: str,
    before: Mapping[tuple[str, str], Contents],
    after: Mapping[tuple[str, str], Contents],
    fix: str = _AS_IT_WAS,
) -> int:
    """Check that rewritten state equals the original and is in the right partitions; return the number of rows.

    Args:
        label: the operator, for messages.
        before: the content before, by state store and part of it, such as a column family.
        fix: what to do if it differs.

    Raises:
        StateRewrittenWrongly: it differs.
    """
    for place in sorted({*before, *after}):
        was, now = before.get(place, _NOTHING), after.get(place, _NOTHING)
        if now.misplaced or (was.rows, was.checksum) != (now.rows, now.checksum):
            raise StateRewrittenWrongly(
                f"The state of {label} was not rewritten as it was: its store {' '.join(place)} had {was.rows} rows "
                f"with the checksum {was.checksum}, and has {now.rows} with {now.checksum}, {now.misplaced} of them "
                "in the wrong partition",
                fix,
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
