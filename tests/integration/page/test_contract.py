"""The page and the recorded states use the fields of the control API: a field with another name fails here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from tests.integration.page.states import STATES

from streamjob.client.chain_models import BatchTimesView
from streamjob.client.jobs_models import ConditionView, JobRow, JobsView, ResourceView
from streamjob.client.models import (
    ChainView,
    ChannelView,
    CheckpointsView,
    ExecutorsView,
    InputView,
    JobReport,
    JobView,
    SinkView,
    TaskStatistics,
    TriggerView,
)
from streamjob.client.page_models import Diagnosis, EventsView, HistoryPoint, HistoryView
from streamjob.client.profile_models import ProcessProfile, ProfileSummary

SOURCES = Path(__file__).resolve().parents[3] / "ui" / "src"
READ: dict[str, tuple[type[BaseModel], ...]] = {
    "job": (JobReport,),
    "chain": (ChainView,),
    "channel": (ChannelView,),
    "condition": (ConditionView,),
    "diagnosis": (Diagnosis,),
    "input": (InputView,),
    "point": (HistoryPoint,),
    "resource": (ResourceView,),
    "process": (ProcessProfile,),
    "row": (JobRow,),
    "sink": (SinkView,),
    "statistics": (CheckpointsView,),
    "recording": (ProfileSummary,),
    "task": (TaskStatistics,),
    "times": (BatchTimesView,),
    "view": (JobsView, ExecutorsView, TriggerView),
}
"""Names in the page's sources, and the models of their values."""


def names(model: type[BaseModel]) -> set[str]:
    """Return the fields of a model in JSON."""
    return {field.serialization_alias or field.alias or name for name, field in model.model_fields.items()}


@pytest.mark.parametrize("variable", READ)
def test_the_page_reads_only_fields_that_the_api_has(variable: str) -> None:
    text = "\n".join(each.read_text() for each in SOURCES.rglob("*.js"))
    read = set(re.findall(rf"(?<![.\w]){variable}\??\.(\w+)", re.sub(r"\w+\.(?:yaml|js)\b", "", text)))

    assert read
    assert read - set().union(*(names(model) for model in READ[variable])) == set()


@pytest.mark.parametrize("name", [each for each in STATES if each != "hostile"])
def test_a_recorded_state_has_only_fields_that_the_api_has(name: str) -> None:
    state = STATES[name]()
    models: list[tuple[type[BaseModel], Any]] = [
        (JobView, state["job"]),
        (Diagnosis, state["diagnosis"]),
        (CheckpointsView, state["checkpoints"]),
        (HistoryView, {"intervalSeconds": 5, "points": state["points"]}),
        (EventsView, {"events": state["events"]}),
        (ExecutorsView, state["executors"]),
    ]
    lost = [path for model, value in models for path in missing(value, written(model, value), model.__name__)]

    assert lost == []


def written(model: type[BaseModel], value: Any) -> Any:
    """Return what a driver would send for these values; it leaves out what it does not know."""
    return model.model_validate(value).model_dump(mode="json", by_alias=True)


def missing(given: Any, kept: Any, path: str) -> list[str]:
    """Return the paths of fields that are in `given` only; null may be left out."""
    if isinstance(given, dict):
        return [
            each
            for name, value in given.items()
            if value is not None
            for each in (missing(value, kept[name], f"{path}.{name}") if name in kept else [f"{path}.{name}"])
        ]
    if isinstance(given, list):
        return [each for i, value in enumerate(given) for each in missing(value, kept[i], f"{path}[{i}]")]
    return []
