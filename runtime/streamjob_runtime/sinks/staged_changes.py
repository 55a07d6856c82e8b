"""Changes as lake sinks stage them: with their positions, of which the last one of each key counts."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

DELETED = "_streamjob_deleted"
"""Column of staged changes: whether the row with this key is to be deleted."""
POSITION = "_streamjob_position"
"""Column of staged changes: the change's position in its batch."""
KEY_FIX = "give it a value in the job, or leave such rows out"
"""What to do about a change without a key."""


def last_changes(changes: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the last change of each key, in the order of these changes.

    Args:
        changes: changes in their order.
        key: the columns that identify a row.
    """
    positions = pa.array(range(changes.num_rows), pa.int64())
    numbered = changes.select(key).append_column(POSITION, positions)
    last = numbered.group_by(list(key), use_threads=False).aggregate([(POSITION, "max")])
    return in_order(changes, last.column(f"{POSITION}_max"))


def in_order(rows: pa.Table, positions: pa.ChunkedArray) -> pa.Table:
    """Return the rows at some positions, in their order."""
    return rows.take(positions.take(pc.sort_indices(positions)))
