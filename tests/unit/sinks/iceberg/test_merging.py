"""Changes are merged by key: the last change of each key counts, and rows of other keys stay as they are."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from streamjob_runtime.sinks.iceberg.merging import without
from streamjob_runtime.sinks.staged_changes import DELETED, last_changes

KEYS = st.tuples(st.integers(0, 3), st.sampled_from("ab"))


def table(rows: list[tuple[tuple[int, str], int, bool]]) -> pa.Table:
    columns = {
        "id": pa.array([key[0] for key, _, _ in rows], pa.int64()),
        "region": pa.array([key[1] for key, _, _ in rows], pa.string()),
        "n": pa.array([n for _, n, _ in rows], pa.int64()),
        DELETED: pa.array([deleted for _, _, deleted in rows], pa.bool_()),
    }
    return pa.table(columns)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(KEYS, st.integers(0, 9), st.booleans()), max_size=30), st.lists(KEYS, unique=True))
def test_a_table_is_what_all_changes_in_their_order_make_of_it(
    changes: list[tuple[tuple[int, str], int, bool]], there: list[tuple[int, str]]
) -> None:
    expected = dict.fromkeys(there, -1)
    for key, n, deleted in changes:
        expected.pop(key, None)
        if not deleted:
            expected[key] = n

    last = last_changes(table(changes), ["id", "region"])
    kept = without(table([(key, -1, False) for key in there]), last, ["id", "region"])
    rows = [row for row in (*kept.to_pylist(), *last.to_pylist()) if not row[DELETED]]

    assert {(row["id"], row["region"]): row["n"] for row in rows} == expected
    assert len(rows) == len(expected)
