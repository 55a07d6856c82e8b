"""The common parts of all benchmarks: command line, stored results, and reports."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from bench import (
    backpressure_model,
    backpressure_report,
    channels_model,
    channels_report,
    controller_model,
    controller_report,
    incremental_model,
    incremental_report,
    kafka_model,
    kafka_report,
    load_report,
    model,
    postgresql_model,
    postgresql_report,
    report,
)
from bench.entry import Benchmark, parser
from bench.model import Model, Recovery, Results
from bench.rounds import order, rounds
from bench.summary import interleaved, loads

BENCH = Path(__file__).resolve().parents[3] / "bench"


def recovery(number: int, load: float) -> Recovery:
    return Recovery(side="a", round=number, first=1, beyond=2, published=3, load_before=load, load_after=load)


@pytest.mark.parametrize(
    ("name", "kind", "of"),
    [
        ("results", model.Results, report),
        ("backpressure", backpressure_model.Backpressure, backpressure_report),
        ("channels", channels_model.Channels, channels_report),
        ("controller", controller_model.Controlled, controller_report),
        ("incremental", incremental_model.Incremental, incremental_report),
        ("kafka", kafka_model.Kafka, kafka_report),
        ("load", load_report.Load, load_report),
        ("postgresql", postgresql_model.Postgresql, postgresql_report),
    ],
)
def test_a_report_is_what_its_results_give(name: str, kind: type[Model], of: ModuleType) -> None:
    kept = model.load(kind, BENCH / f"{name}.json")

    assert kept is not None
    assert of.render(kept) == (BENCH / f"{name.upper()}.md").read_text()


@pytest.mark.parametrize(("arguments", "kept"), [([], ["some.json", "SOME.md"]), (["--quick"], [])])
def test_a_benchmark_keeps_its_results_and_their_report_unless_it_is_but_a_look(
    arguments: list[str], kept: list[str], tmp_path: Path
) -> None:
    options = parser("make bench-some", "Measures.", "little").parse_args(arguments)

    Benchmark(options, tmp_path, tmp_path).keep(Results(), tmp_path / "some.json", lambda _: "report")

    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(kept)
    assert model.load(Results, tmp_path / "some.json") == (Results() if kept else None)


def test_results_name_the_target_that_makes_them_again() -> None:
    options = parser("make bench-some", "Measures.", "little").parse_args([])

    assert Benchmark(options, Path(), Path()).circumstances(0.0).command.startswith("make bench-some")


def test_every_side_is_first_in_some_round_and_last_in_another() -> None:
    orders = [order("abcd", number) for number in range(8)]

    assert all(sorted(each) == list("abcd") for each in orders)
    assert {each[0] for each in orders} == {each[-1] for each in orders} == set("abcd")
    assert list(rounds("abcd", 8, None)) == list(enumerate(orders))


def test_a_report_says_how_many_rounds_there_were_and_how_busy_the_machine_was() -> None:
    runs = [recovery(0, 0.5), recovery(0, 0.7), recovery(1, 2.5)]

    assert interleaved(runs) == "Medians of 2 interleaved rounds."
    assert interleaved(runs[:2]) == "One round."
    assert loads(runs) == "Load average before a run: median 0.7, most 2.5."
    assert loads([]) == ""
