"""Commits to a table that others write to, too."""

from __future__ import annotations

import pytest

from streamjob.sink import StagedRowsGone
from streamjob_runtime.sinks.lakes.optimistic_commits import commit_optimistically, problem_of


@pytest.mark.parametrize(("failures", "attempts", "left"), [(0, 1, None), (2, 3, None), (99, 12, "overtaken 11")])
def test_a_commit_is_tried_a_dozen_times_and_the_last_failure_is_returned(
    failures: int, attempts: int, left: str | None
) -> None:
    made: list[int] = []
    noted: list[Exception] = []
    waits: list[float] = []

    def attempt(number: int) -> None:
        made.append(number)
        if number < failures:
            raise OSError(f"overtaken {number}")

    failure = commit_optimistically(attempt, noted.append, waits.append)

    assert (None if failure is None else str(failure)) == left
    assert made == list(range(attempts))
    assert len(noted) == min(failures, attempts)
    assert len(waits) == attempts - 1


def test_an_error_for_people_ends_the_attempts() -> None:
    made: list[int] = []

    def attempt(number: int) -> None:
        made.append(number)
        raise StagedRowsGone("rows are gone")

    with pytest.raises(StagedRowsGone):
        commit_optimistically(attempt, lambda failure: None, lambda seconds: None)
    assert made == [0]


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_files_that_a_commit_removes_while_it_is_checked_are_not_missing(missing: int) -> None:
    answers = [True] * missing + [False]

    def check() -> None:
        if answers.pop(0):
            raise StagedRowsGone("rows are gone")

    assert (problem_of(check) is None) == (missing < 2)
