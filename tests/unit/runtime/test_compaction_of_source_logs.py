"""However often a job restarts, its file sources look for the compactions that they have written."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjob_runtime.spark.checkpoint_dir.compaction import former_compaction, settle_intervals
from streamjob_runtime.spark.checkpoint_dir.sources import file_source_entries, log_entries


def interval_in_spark(names: list[str], default: int) -> int:
    """Return the interval that Spark finds, as its CompactibleFileStreamLog does."""
    compactions = sorted(number for number, name in log_entries(names).items() if name.endswith(".compact"))
    if not compactions:
        return default
    if len(compactions) > 1:
        return compactions[-1] - compactions[-2]
    total = compactions[0] + 1
    if total <= default or default >= total // 2:
        return total
    return next((k for k in range(default, total // 2 + 1) if total % k == 0), total)


def restored(names: list[str], default: int) -> list[str]:
    """Return the entries of a cut behind the last one, as a restored query finds them."""
    kept = file_source_entries(names, max(log_entries(names), default=-1))
    former = former_compaction(kept, default)
    return kept if former is None else [*kept, f"{former}.compact"]


def check(names: list[str], interval: int) -> None:
    """Check that a query finds all entries that it needs, under the names that it looks for."""
    last = max(log_entries(names), default=-1)
    first = max(0, (last + 1) // interval * interval - 1)
    needed = [f"{n}.compact" if (n + 1) % interval == 0 else str(n) for n in range(first, last + 1)]
    assert set(needed) <= set(names), interval


def written(names: list[str], count: int, interval: int) -> list[str]:
    last = max(log_entries(names), default=-1)
    return names + [f"{n}.compact" if (n + 1) % interval == 0 else str(n) for n in range(last + 1, last + 1 + count)]


@given(st.lists(st.integers(0, 45), min_size=1, max_size=12), st.sampled_from([2, 3, 5, 10, 12, 100]))
def test_each_restart_finds_the_entries_that_it_needs(runs: list[int], default: int) -> None:
    names: list[str] = []
    for count in runs:
        names = restored(names, default)
        interval = interval_in_spark(names, default)
        check(names, interval)
        names = written(names, count, interval)
        check(names, interval)


def test_an_interval_does_not_grow_with_restarts() -> None:
    names: list[str] = []
    for count in (25, 30, 7, 60, 1, 9, 200):
        names = restored(names, 10)
        assert interval_in_spark(names, 10) == 10
        names = written(names, count, 10)


@pytest.mark.parametrize(
    ("entries", "former"),
    [
        ([], None),
        (["0", "1"], None),
        (["9.compact"], None),
        (["19.compact"], 9),
        (["19.compact", *map(str, range(20, 30))], None),
        (["39.compact", *map(str, range(40, 54))], 19),
        (["29.compact", "39.compact", "40"], None),
    ],
)
def test_the_former_compaction_fits_the_entries_behind_the_newest_one(entries: list[str], former: int | None) -> None:
    assert former_compaction(entries) == former


def test_the_former_compaction_is_an_empty_file_of_the_file_sources_alone(tmp_path: Path) -> None:
    for name in ("0/39.compact", "0/40", "1/0"):
        file = tmp_path / "sources" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("v1")

    settle_intervals(tmp_path)

    assert sorted(each.name for each in (tmp_path / "sources/0").iterdir()) == ["29.compact", "39.compact", "40"]
    assert (tmp_path / "sources/0/29.compact").read_bytes() == b""
    assert [each.name for each in (tmp_path / "sources/1").iterdir()] == ["0"]
