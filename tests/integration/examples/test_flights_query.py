"""The flights example's query as a Spark batch: what the demo judges the stream by."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.unit.examples.flights import FLIGHTS, modules_by_name

from streamjob.job.loading.load import load_job

_FLIGHTS = """\
origin,carrier,flight,tailnum,dest,scheduled,dep_delay,arr_delay,distance
EWR,UA,1,N1,IAH,2013-01-01T10:15:00Z,2,11,1400
EWR,UA,2,N2,IAH,2013-01-01T10:59:00Z,40,33,1400
EWR,UA,3,,IAH,2013-01-01T10:30:00Z,,,1400
JFK,AA,4,N4,MIA,2013-01-01T11:00:00Z,-4,33,1089
"""
_WEATHER = """\
{"origin":"EWR","observed":"2013-01-01T10:00:00Z","temp":39.0,"wind_speed":10.0,"precip":0.0,"visib":9.0}
{"origin":"EWR","observed":"2013-01-01T11:00:00Z","temp":41.0,"wind_speed":11.0,"precip":0.1,"visib":8.0}
{"origin":"JFK","observed":"2013-01-01T10:00:00Z","temp":38.0,"wind_speed":12.0,"precip":0.0,"visib":7.0}
"""


@pytest.fixture(scope="module")
def compare() -> Iterator[ModuleType]:
    with modules_by_name():
        yield importlib.import_module("compare")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("flights")
    for name, text in (("flights/day.csv", _FLIGHTS), ("weather/day.json", _WEATHER)):
        (root / name).parent.mkdir()
        (root / name).write_text(text)
    return root


@pytest.mark.spark
@pytest.mark.parametrize("file", ["job.yaml", "job.py"])
def test_departures_meet_the_weather_of_their_hour(compare: ModuleType, data: Path, spark: Any, file: str) -> None:
    """By hand: three flights of one hour, one of them cancelled, and one in an hour without weather data."""
    paths = [f"sources.{name}.options.path={data / name}" for name in ("flights", "weather")]
    hours = compare.batch_of(spark, load_job(FLIGHTS / file, paths))["hours"]
    rows = hours.withColumn("hour", hours["hour"].cast("string")).orderBy("airport").collect()

    assert [tuple(row) for row in rows] == [
        ("EWR", "2013-01-01 10:00:00", 3, 1, 1, 21.0, 40, 39.0, 10.0, 0.0, 9.0),
        ("JFK", "2013-01-01 11:00:00", 1, 0, 0, -4.0, -4, None, None, None, None),
    ]
