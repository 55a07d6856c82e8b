"""Tests of the records of connectors: they agree with what is beside them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import get_args

import pytest

from streamjob.job.connectors.connector import Connector
from streamjob.job.connectors.registry import CONNECTORS
from streamjob_runtime.sinks.factory import _OURS
from streamjob_runtime.spark.connectors import artifacts

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
ALL = pytest.mark.parametrize("connector", CONNECTORS.values(), ids=CONNECTORS)


@ALL
def test_an_extra_of_a_sink_is_one_of_the_project(connector: Connector) -> None:
    if connector.sink is not None and connector.sink.extra is not None:
        assert connector.sink.extra in PROJECT["optional-dependencies"]


@ALL
def test_each_exactly_once_sink_is_ours(connector: Connector) -> None:
    exact = connector.sink is not None and "exactly-once" in connector.sink.deliveries
    if connector.path != "files":
        assert exact == ((connector.name, "exactly-once") in _OURS)


@ALL
def test_a_mode_of_a_sink_is_one_that_the_options_have(connector: Connector) -> None:
    if connector.sink is not None and connector.sink.options is not None:
        modes = get_args(connector.sink.options.model_fields["mode"].annotation)
        assert connector.sink.upserts == ("upsert" in modes)
        assert connector.sink.replaces == ("replace" in modes)


def test_a_jar_that_a_connector_needs_is_pinned() -> None:
    needing = {name for name, each in CONNECTORS.items() if each.jar is not None}
    assert needing == artifacts.CONNECTORS.keys() & CONNECTORS.keys()
