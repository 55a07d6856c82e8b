"""When a staging table takes batches, and when it can be dropped."""

from __future__ import annotations

from streamjob_runtime.sinks.postgresql.staging import StagingTables


def filled(*batches: str, capacity: int = 10) -> StagingTables:
    tables = StagingTables(capacity)
    for batch in batches:
        if tables.take(batch) is None:
            tables.made(f"table of {batch}", batch)
    return tables


def test_a_table_takes_one_batch_after_the_other() -> None:
    assert filled("a", "b").take("c") == "table of a"


def test_a_full_table_takes_no_more() -> None:
    assert filled("a", "b", capacity=2).take("c") is None


def test_a_table_is_dropped_with_the_last_of_its_batches() -> None:
    tables = filled("a", "b")

    assert tables.close_for(["a"]) == []
    tables.committed(["a"], [])
    assert tables.close_for(["b"]) == ["table of a"]
    tables.committed(["b"], ["table of a"])
    assert tables.unused() == []


def test_a_table_of_committed_rows_takes_no_more_batches() -> None:
    tables = filled("a")
    tables.close_for(["a"])

    assert tables.take("b") is None


def test_a_table_into_which_a_batch_is_being_copied_is_not_dropped() -> None:
    tables = filled("a")
    assert tables.take("under way") == "table of a"

    assert tables.close_for(["a"]) == []


def test_a_table_whose_batches_were_empty_takes_the_next_one() -> None:
    tables = filled("a", capacity=1)
    tables.empty("a")

    assert tables.unused() == ["table of a"]


def test_an_empty_batch_does_not_count_towards_the_capacity() -> None:
    tables = filled("a", capacity=2)
    for _ in range(5):
        assert tables.take("empty") == "table of a"
        tables.empty("empty")

    assert tables.take("b") == "table of a"
    assert tables.take("c") is None


def test_a_closed_table_that_turned_out_empty_is_dropped_with_the_next_commit() -> None:
    tables = filled("a", "b", capacity=2)
    tables.close_for(["a"])
    tables.committed(["a"], [])
    tables.empty("b")

    assert tables.close_for(["c"]) == ["table of a"]
