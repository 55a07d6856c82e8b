"""The evaluation of observations in the benchmark of a long life."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from bench.model import Circumstances
from bench.soak_figures import jvm_figures, live_figures, tree
from bench.soak_model import Look, Soak
from bench.soak_report import render, trend_table
from bench.soak_trend import Course, slope, trend

WHERE = Circumstances(command="make it", begun="then", ended="now", machine="2 × CPU", versions={"Spark": "4.3.0"})
HOUR = 3600.0
PARALLEL = """4711:
 PSYoungGen      total 76288K, used 45000K [0x1, 0x2, 0x3)
  eden space 65536K, 68% used [0x1,0x2,0x3)
  from space 10752K, 0% used [0x1,0x2,0x3)
 ParOldGen       total 175104K, used 30000K [0x1, 0x2, 0x3)
  object space 175104K, 17% used [0x1,0x2,0x3)
 Metaspace       used 100000K, committed 101000K, reserved 1114112K
  class space    used 12000K, committed 12200K, reserved 1048576K
"""
G1 = """4711:
 garbage-first heap   total 262144K, used 90112K [0x1, 0x2)
  region size 1024K, 80 young (81920K), 3 survivors (3072K)
 Metaspace       used 100000K, committed 101000K, reserved 1114112K
"""
NATIVE = """4711:

Native Memory Tracking:

Total: reserved=3456789KB, committed=500000KB
       malloc: 90000KB #12
"""
HISTOGRAM = """ num     #instances         #bytes  class name (module)
-------------------------------------------------------
   1:        200000       16000000  [B (java.base@17)
Total        900000       70000000
"""


def looks(value: Callable[[float], float], hours: float = 2.0) -> list[Look]:
    """Return a look every minute, warm-up included, at a figure that is a function of the hours."""
    count = round(hours * 60)
    return [
        Look(at=60.0 * number, load=1.0, figures={"work_files": value(number / 60)}) for number in range(-10, count + 1)
    ]


@pytest.mark.parametrize(
    ("value", "course"),
    [
        (lambda hours: 1000.0, Course.FLAT),
        (lambda hours: 1000.0 - 100 * hours, Course.FLAT),
        (lambda hours: 1000.0 + 100 * hours, Course.GROWS),
        (lambda hours: 1000.0 + 400 * min(hours, 0.6), Course.SETTLED),
        (lambda hours: 1000.0 + 100 * (round(hours * 60) % 7) + 100 * hours, Course.GROWS),
        (lambda hours: 1000.0 + 100 * (round(hours * 60) % 7), Course.FLAT),
        (lambda hours: 5000.0 if hours < 0 else 1000.0, Course.FLAT),
    ],
    ids=["even", "falls", "rises", "rises at first", "rises with noise", "noise", "another warm-up"],
)
def test_a_figure_grows_if_it_still_rises_in_the_last_quarter(value: Callable[[float], float], course: Course) -> None:
    found = trend(looks(value), "work_files", least=20)

    assert found is not None
    assert found.course is course


def test_a_rise_that_does_not_matter_is_none() -> None:
    found = trend(looks(lambda hours: 10 + hours), "work_files", least=20)

    assert found is not None
    assert found.course is Course.FLAT


def test_the_slope_is_that_of_most_pairs() -> None:
    found = trend(looks(lambda hours: 1000 + 60 * hours), "work_files", least=0)

    assert found is not None
    assert found.slope == pytest.approx(60)
    assert (found.first, found.last) == (1014.5, 1105)
    assert slope([(0, 0), (1, 1), (2, 2), (3, 300), (4, 4)]) == 1


def test_a_figure_that_was_not_seen_in_each_quarter_has_no_trend() -> None:
    seen = looks(lambda hours: 1.0)

    assert trend(seen, "metaspace", least=0) is None
    assert trend(seen[:11], "work_files", least=0) is None


@pytest.mark.parametrize(("said", "total", "used"), [(PARALLEL, 251392, 75000), (G1, 262144, 90112)], ids=["old", "g1"])
def test_the_heap_is_read_for_each_collector(said: str, total: int, used: int) -> None:
    assert jvm_figures(said, NATIVE) == {
        "heap_committed": total * 1024,
        "heap_used": used * 1024,
        "metaspace": 100_000 * 1024,
        "native_committed": 500_000 * 1024,
    }


def test_what_jcmd_does_not_say_is_left_out() -> None:
    assert jvm_figures("", "Native memory tracking is not enabled") == {}
    assert live_figures("") == {}


def test_the_heap_behind_a_collection_is_the_sum_of_the_histogram() -> None:
    assert live_figures(HISTOGRAM) == {"heap_live_objects": 900_000, "heap_live": 70_000_000}


def test_directories_count_as_files_and_a_missing_one_has_none(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "c").write_bytes(b"12345")

    counted = tree(tmp_path)

    assert (counted.files, counted.bytes) == (3, 5)
    assert tree(tmp_path / "none").files == 0


def test_the_report_names_figures_that_grow() -> None:
    result = Soak(
        circumstances=WHERE,
        minutes=120,
        warm_up_minutes=10,
        cpu_share=0.25,
        rows_in=100_000,
        rows_out=99_000,
        restarts=0,
        checkpoints=1400,
        failed_checkpoints=0,
        looks=tuple(looks(lambda hours: 1000 + 100 * hours)),
    )

    text = render(result)

    assert trend_table(result.looks).rows == (("work directory: files", "1,024", "1,175", "+100.0", "**grows**"),)
    assert "- grows: work directory: files\n" in text
    assert "0.25 processors on average; 1,400 checkpoints completed, 0 failed, 0 restarts" in text
