"""The report of idle jobs."""

from __future__ import annotations

from bench import model
from bench.idle import RESULTS
from bench.idle_report import Idle, Together, render


def test_the_report_in_the_repository_is_that_of_its_results() -> None:
    results = model.load(Idle, RESULTS)

    assert results is not None
    assert RESULTS.with_name("IDLE.md").read_text() == render(results)


def test_ten_jobs_that_need_more_than_the_node_has_miss_the_goal() -> None:
    results = model.load(Idle, RESULTS)
    assert results is not None
    ten = Together(
        jobs=10, heap="2g", seconds=60, started=9, cores=1.0, memory=9 << 30, requests={"PutObject": 240}, load_before=1
    )

    report = render(results.model_copy(update={"runs": (ten,)}))

    assert "- **missed**: ten jobs on two cores and 8 GB: 9.7 GB, 1.00 cores (heap 2g)" in report
    assert "| 10 | 2g | 9 | 10.0 | 966 | 9.66 | 24.0 |" in report
