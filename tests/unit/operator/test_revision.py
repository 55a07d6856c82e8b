"""Changes that make a new revision, and the steps to it."""

from __future__ import annotations

from typing import Any

import pytest

from streamjob_operator.decisions.revision import Difference, Revision, difference, revision_of
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
        ({"checkpointing": {"location": "s3://b/p", "interval": "5s"}}, Difference.PATCH),
        ({"job": {**JOB, "checkpointing": {"interval": "5s"}}}, Difference.PATCH),
        ({"checkpointing": {"location": "s3://b/p", "numRetained": 5}}, Difference.PATCH),
        ({"parallelism": 3}, Difference.SCALE),
        ({"job": {**JOB, "parallelism": 3}}, Difference.SCALE),
        ({"parallelism": 3, "checkpointing": {"location": "s3://b/p", "interval": "5s"}}, Difference.SCALE),
        ({"image": "two"}, Difference.UPGRADE),
        ({"image": "two", "parallelism": 3}, Difference.UPGRADE),
        ({"restartNonce": 1}, Difference.UPGRADE),
        ({"maxParallelism": 8}, Difference.UPGRADE),
        ({"checkpointing": {"location": "s3://b/q"}}, Difference.UPGRADE),
        ({"checkpointing": {"location": "s3://b/p", "incremental": False}}, Difference.UPGRADE),
        ({"job": {**JOB, "sources": [{"name": "b"}]}}, Difference.UPGRADE),
        ({"driver": {"memory": "2g"}}, Difference.UPGRADE),
    ],
    ids=str,
)
def test_the_greatest_change_says_what_it_takes(changes: dict[str, Any], expected: Difference) -> None:
    before, after = revision(SPEC), revision({**SPEC, **changes})

    assert before.name != after.name
    assert difference(before, after) is expected


def test_the_same_parallelism_in_the_job_and_over_it_is_no_difference() -> None:
    inside = revision({**SPEC, "job": {**JOB, "parallelism": 3}})

    assert difference(inside, revision({**SPEC, "parallelism": 3})) is Difference.IGNORE
    assert inside.name == revision({**SPEC, "parallelism": 3}).name


def test_a_policy_that_only_the_application_knows_is_brought_back_by_a_restart() -> None:
    spec = {"mainApplicationFile": "local:///app/job.py", "checkpointing": {"location": "s3://b/p", "interval": "5s"}}
    without = {**spec, "checkpointing": {"location": "s3://b/p"}}

    assert difference(revision(without), revision(spec)) is Difference.PATCH
    assert difference(revision(spec), revision(without)) is not Difference.PATCH


def test_a_revision_brings_back_the_spec_that_its_driver_is_made_from() -> None:
    made = revision({**SPEC, "suspend": True, "driver": {"memory": "2g"}})

    assert made.location == "s3://b/p"
    assert made.policy["interval"] == "20s"
    assert made.spec().image == "one"
    assert not made.spec().suspend
    assert revision_of("orders", made.spec()).name == made.name
