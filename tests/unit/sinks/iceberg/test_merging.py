"""Changes are merged by key: the last change of each key counts, and rows of other keys stay as they are."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from streamjob_runtime.sinks.errors import RowsRefused
from streamjob_runtime.sinks.iceberg.merging import with_kept
from streamjob_runtime.sinks.lakes.staged_changes import DELETED, LEFT_OUT, folded_changes, last_changes, without

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


Cells = dict[str, int | None]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 2), st.integers(0, 99), st.integers(0, 99), st.sets(st.sampled_from("xy")), st.booleans()
        ),
        max_size=12,
    ),
    st.dictionaries(st.integers(0, 2), st.tuples(st.integers(100, 199), st.none() | st.integers(100, 199))),
)
def test_a_column_that_a_change_leaves_out_keeps_its_value_or_there_is_an_error(
    changes: list[tuple[int, int, int, set[str], bool]], there: dict[int, tuple[int, int | None]]
) -> None:
    expected: dict[int, Cells | None] = {key: {"x": x, "y": y} for key, (x, y) in there.items()}
    lost: set[int] = set()
    for key, x, y, left_out, deleted in changes:
        before, new = expected.get(key), {"x": x, "y": y}
        if deleted:
            expected[key] = None
            lost.discard(key)
            continue
        if before is None and left_out:
            lost.add(key)
        kept: Cells = {name: (before or {}).get(name, -1) if name in left_out else new[name] for name in "xy"}
        expected[key] = kept
        if -1 not in kept.values():
            lost.discard(key)

    columns = {
        "id": pa.array([change[0] for change in changes], pa.int64()),
        "x": pa.array([None if "x" in change[3] else change[1] for change in changes], pa.int64()),
        "y": pa.array([None if "y" in change[3] else change[2] for change in changes], pa.int64()),
        DELETED: pa.array([change[4] for change in changes], pa.bool_()),
        LEFT_OUT: pa.array([sorted(change[3]) for change in changes], pa.list_(pa.string())),
    }
    stored = pa.table(
        {
            "id": pa.array(list(there), pa.int64()),
            "x": pa.array([x for x, _ in there.values()], pa.int64()),
            "y": pa.array([y for _, y in there.values()], pa.int64()),
        }
    )
    try:
        last = folded_changes(pa.table(columns), ["id"], "t")
        if LEFT_OUT in last.column_names:
            last = with_kept(last, ["id"], stored, "t")
    except RowsRefused:
        assert lost
        return
    assert not lost
    found = {row["id"]: None if row[DELETED] else {"x": row["x"], "y": row["y"]} for row in last.to_pylist()}
    assert found == {key: expected[key] for key, *_ in changes}
