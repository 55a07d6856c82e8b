"""Changes that make a new revision, and the steps to it."""

from __future__ import annotations

from typing import Any

import pytest

from streamjob_operator.decisions.values.revision import Revision, difference, revision_of
from streamjob_operator.resources.effect_of_changes import Change
from streamjob_operator.resources.streamjob import StreamJobSpec

JOB: dict[str, Any] = {"sources": [{"name": "a"}], "checkpointing": {"interval": "20s"}}
SPEC: dict[str, Any] = {"job": JOB, "image": "one", "checkpointing": {"location": "s3://b/p"}}


def revision(spec: dict[str, Any]) -> Revision:
    return revision_of("orders", StreamJobSpec.model_validate(spec))


@pytest.mark.parametrize(
    "changes",
    [
        {"suspend": True},
        {"upgradeMode": "stateless"},
        {"upgrade": {"lastStateFallback": False}},
        {"savepoints": {"onDeletion": True}},
        {"savepointTriggerNonce": 3},
        {"savepointRedeployNonce": 3},
        {"initialSavepointPath": "s3://b/s"},
        {"healthCheck": {"enabled": False}},
        {"restartPolicy": {"type": "Never"}},
        {"deletionPolicy": "Delete"},
        {"imagePullPolicy": "IfNotPresent"},
        {"checkpointing": {"location": "s3://b/p", "timeout": "600s"}},
        {"checkpointing": {"location": "s3://b/p", "interval": "20s"}},
    ],
    ids=str,
)
def test_what_needs_no_other_driver_makes_no_other_revision(changes: dict[str, Any]) -> None:
    assert revision({**SPEC, **changes}).name == revision(SPEC).name


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"checkpointing": {"location": "s3://b/p", "interval": "5s"}}, Change.PATCH),
        ({"job": {**JOB, "checkpointing": {"interval": "5s"}}}, Change.PATCH),
        ({"checkpointing": {"location": "s3://b/p", "numRetained": 5}}, Change.PATCH),
        ({"parallelism": 3}, Change.SCALE),
        ({"job": {**JOB, "parallelism": 3}}, Change.SCALE),
        ({"parallelism": 3, "checkpointing": {"location": "s3://b/p", "interval": "5s"}}, Change.SCALE),
        ({"image": "two"}, Change.UPGRADE),
        ({"image": "two", "parallelism": 3}, Change.UPGRADE),
        ({"restartNonce": 1}, Change.UPGRADE),
        ({"maxParallelism": 8}, Change.UPGRADE),
        ({"checkpointing": {"location": "s3://b/q"}}, Change.UPGRADE),
        ({"checkpointing": {"location": "s3://b/p", "incremental": False}}, Change.UPGRADE),
        ({"job": {**JOB, "sources": [{"name": "b"}]}}, Change.UPGRADE),
        ({"driver": {"memory": "2g"}}, Change.UPGRADE),
    ],
    ids=str,
)
def test_the_greatest_change_says_what_it_takes(changes: dict[str, Any], expected: Change) -> None:
    before, after = revision(SPEC), revision({**SPEC, **changes})

    assert before.name != after.name
    assert difference(before, after) is expected


def test_the_same_parallelism_in_the_job_and_over_it_is_no_difference() -> None:
    inside = revision({**SPEC, "job": {**JOB, "parallelism": 3}})

    assert difference(inside, revision({**SPEC, "parallelism": 3})) is Change.IGNORE
    assert inside.name == revision({**SPEC, "parallelism": 3}).name


WITH_TWO: dict[str, Any] = {**SPEC, "executor": {"instances": 2, "cores": 2}}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"executor": {"instances": 3, "cores": 2}}, Change.PATCH),
        ({"executor": {"cores": 2}, "parallelism": 6}, Change.PATCH),
        ({"executor": {"cores": 2}, "parallelism": 4}, Change.IGNORE),
        ({"executor": {"cores": 2}, "job": {**JOB, "parallelism": 4}}, Change.IGNORE),
        ({"executor": {"instances": 2, "cores": 2}, "parallelism": 4}, Change.IGNORE),
        ({"executor": {"instances": 4, "cores": 1}}, Change.UPGRADE),
        ({"executor": {"instances": 2, "cores": 2, "memory": "2g"}}, Change.UPGRADE),
        ({"executor": None, "parallelism": 4}, Change.UPGRADE),
    ],
    ids=str,
)
def test_another_number_of_executors_is_another_parallelism(changes: dict[str, Any], expected: Change) -> None:
    assert difference(revision(WITH_TWO), revision({**WITH_TWO, **changes})) is expected


def test_the_number_of_executors_of_an_application_is_its_parallelism_too() -> None:
    application = {**{key: value for key, value in WITH_TWO.items() if key != "job"}, "mainApplicationFile": "/job.py"}

    assert difference(revision(application), revision({**application, "parallelism": 4})) is Change.IGNORE
    assert difference(revision(application), revision({**application, "executor": {"cores": 2}})) is Change.SCALE


def test_a_policy_that_only_the_application_knows_is_brought_back_by_a_restart() -> None:
    spec = {"mainApplicationFile": "local:///app/job.py", "checkpointing": {"location": "s3://b/p", "interval": "5s"}}
    without = {**spec, "checkpointing": {"location": "s3://b/p"}}

    assert difference(revision(without), revision(spec)) is Change.PATCH
    assert difference(revision(spec), revision(without)) is not Change.PATCH


def test_a_revision_brings_back_the_spec_that_its_driver_is_made_from() -> None:
    made = revision({**SPEC, "suspend": True, "driver": {"memory": "2g"}})

    assert made.location == "s3://b/p"
    assert made.policy["interval"] == "20s"
    assert made.spec().image == "one"
    assert not made.spec().suspend
    assert revision_of("orders", made.spec()).name == made.name
