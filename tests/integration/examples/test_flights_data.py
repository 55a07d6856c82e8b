"""The flights example's input: real data, in the order in which it became known."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from tests.unit.examples.flights import FLIGHTS, modules_by_name

from streamjob.job.loading.load import load_job

FLIGHTS_OF_2013 = 336_776
OBSERVATIONS = 26_115


@pytest.fixture(scope="module")
def module() -> Iterator[ModuleType]:
    """Give access to the example's modules by name, as its scripts have."""
    with modules_by_name():
        yield importlib


@pytest.fixture(scope="module")
def data(module: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(module.import_module("prepare").prepare(tmp_path_factory.mktemp("flights") / "data"))


@pytest.mark.slow
def test_every_flight_and_every_observation_is_written_once(data: Path) -> None:
    flights = [line for file in (data / "flights").iterdir() for line in file.read_text().splitlines()[1:]]
    weather = [line for file in (data / "weather").iterdir() for line in file.read_text().splitlines()]

    assert (len(flights), len(weather)) == (FLIGHTS_OF_2013, OBSERVATIONS)


@pytest.mark.parametrize("source", ["flights", "weather"])
def test_files_are_as_old_as_their_days_are(data: Path, source: str) -> None:
    """Spark reads files in the order of their modification times."""
    by_day = sorted((data / source).iterdir())
    times = [file.stat().st_mtime_ns for file in by_day]

    assert times == sorted(set(times))


def test_the_watermark_allows_for_the_latest_flight(module: ModuleType) -> None:
    """At any moment the greatest schedule of a flight that is known lies less than a day ahead of those to come."""
    flights = module.import_module("prepare").flights()
    lateness = flights["scheduled"].cummax() - flights["scheduled"]
    delay = load_job(FLIGHTS / "job.yaml").spec.source("flights").watermark

    assert delay is not None
    assert 21 * 3600 < lateness.max().total_seconds() < delay.delay


def test_data_that_is_there_is_not_written_again(module: ModuleType, data: Path) -> None:
    file = next((data / "flights").iterdir())
    before = file.stat().st_mtime_ns

    module.import_module("prepare").prepare(data)

    assert file.stat().st_mtime_ns == before
