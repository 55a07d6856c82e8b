"""The common parts of all benchmarks: command line, turns, stored results, and pages."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.entry import Benchmark, order, parser
from bench.pages import pages
from bench.results import FOLDER, Measured, Page, Records, Row
from pydantic import Field


class Some(Row):
    """A run of no benchmark."""

    side: str
    round: int
    cpu: float | None = None
    batches: tuple[int, ...] = ()
    requests: dict[str, int] = Field(default_factory=dict)


RUNS = [
    Some(side="a, or the first", round=0, cpu=1 / 3, batches=(5, 7), requests={"a b": 1, "c": 2}),
    Some(side='"b"', round=1),
]


@pytest.mark.parametrize("name", pages())
def test_a_page_is_what_its_results_give(name: str) -> None:
    assert pages()[name].render() == (FOLDER.parent / f"{name}.md").read_text()


def test_each_page_of_the_folder_is_written_by_a_program() -> None:
    assert {file.stem for file in FOLDER.parent.glob("*.md")} == {"README", *pages()}


def test_runs_are_read_as_they_were_stored(tmp_path: Path) -> None:
    records = Records("some", Some, tmp_path)

    records.save("`make it`, then to now.\n\nA remark.", RUNS)

    assert records.load() == Measured("`make it`, then to now.\n\nA remark.", tuple(RUNS))
    assert Records("none", Some, tmp_path).load() == Measured("", ())


@pytest.mark.parametrize(("arguments", "kept"), [([], 2), (["--quick"], 0)])
def test_a_benchmark_keeps_its_runs_and_names_its_target_unless_it_is_but_a_look(
    arguments: list[str], kept: int, tmp_path: Path
) -> None:
    page = Page("SOME", lambda: "page", folder=tmp_path)
    options = parser("make bench-some", "Measures.", "little").parse_args(arguments)
    records = Records("some", Some, tmp_path)

    Benchmark(options, page, tmp_path, tmp_path).keep(records, RUNS)

    assert len(records.load().runs) == kept
    assert (tmp_path / "SOME.md").exists() is bool(kept)
    assert records.load().where.startswith("`make bench-some") is bool(kept)


def test_every_side_is_first_in_some_round_and_last_in_another() -> None:
    orders = [order("abcd", number) for number in range(8)]

    assert all(sorted(each) == list("abcd") for each in orders)
    assert {each[0] for each in orders} == {each[-1] for each in orders} == set("abcd")
