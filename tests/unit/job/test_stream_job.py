"""The spec of a StreamJob overrides its job in one way, whoever reads the two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from streamjob.errors import InvalidJob
from streamjob.job.loading.load import load_job
from streamjob.job.loading.stream_job import effective_job
from streamjob_operator.decisions.values.revision import revision_of
from streamjob_operator.evaluation.validation import read_problems
from streamjob_operator.resources.streamjob import StreamJob

PARTS: dict[str, Any] = {
    "sources": [{"name": "a", "format": "rate"}],
    "sinks": [{"name": "out", "input": "a", "format": "console"}],
}


def resource(spec: dict[str, Any]) -> dict[str, Any]:
    head = {"apiVersion": "streamjob.io/v1alpha1", "kind": "StreamJob", "metadata": {"name": "departures"}}
    return {**head, "spec": {"upgradeMode": "stateless", **spec}}


@pytest.mark.parametrize(
    ("job", "spec", "merged"),
    [
        ({"parallelism": 2}, {"parallelism": 8}, {"parallelism": 8}),
        ({}, {"maxParallelism": 8}, {"maxParallelism": 8}),
        ({"parallelism": 2}, {"parallelism": None}, {"parallelism": 2}),
        ({"parallelism": 2}, {"image": "ours"}, {"parallelism": 2}),
        (
            {"checkpointing": {"interval": "5s", "mode": "aligned"}},
            {"checkpointing": {"interval": "1m", "mode": None}},
            {"checkpointing": {"interval": "1m", "mode": "aligned"}},
        ),
        ({"checkpointing": None}, {"checkpointing": {"interval": "1m"}}, {"checkpointing": {"interval": "1m"}}),
        ({"sparkConf": {"a": 1, "b": 1}}, {"sparkConf": {"a": 2}}, {"sparkConf": {"a": 2, "b": 1}}),
        ({"sparkConf": 5}, {"sparkConf": {"a": 2}}, {"sparkConf": 5}),
    ],
)
def test_a_field_of_the_spec_overrides_that_of_the_job(
    job: dict[str, Any], spec: dict[str, Any], merged: dict[str, Any]
) -> None:
    assert effective_job(job, spec) == merged


def test_validate_the_driver_and_the_revision_read_the_same_policy(tmp_path: Path) -> None:
    job = {**PARTS, "parallelism": 2, "checkpointing": {"interval": "5s", "numRetained": 7, "location": "/snapshots"}}
    content = resource({"job": job, "parallelism": 8, "checkpointing": {"interval": "1m", "numRetained": None}})
    file = tmp_path / "departures.yaml"
    file.write_text(yaml.safe_dump(content))

    loaded = load_job(file).spec
    stream_job = StreamJob.model_validate(content)
    driver, revision = stream_job.job_file(), revision_of("departures", stream_job.spec)

    assert driver is not None
    assert (loaded.parallelism, loaded.checkpointing.interval, loaded.checkpointing.num_retained) == (8, 60, 7)
    assert (driver["parallelism"], driver["checkpointing"]) == (
        8,
        {"interval": "1m", "numRetained": 7, "location": "/snapshots"},
    )
    assert (revision.policy["interval"], revision.policy["numRetained"]) == ("1m", 7)
    assert revision.location == "/snapshots"


@pytest.mark.parametrize("field", ["checkpointing", "sparkConf"])
def test_a_field_of_the_job_that_is_no_mapping_is_a_problem_although_the_spec_overrides_it(
    tmp_path: Path, field: str
) -> None:
    content = resource({"job": {**PARTS, field: 5}, field: {}})
    file = tmp_path / "departures.yaml"
    file.write_text(yaml.safe_dump(content))
    problem = f"{field}: must be a mapping"

    with pytest.raises(InvalidJob, match=problem):
        load_job(file)
    assert problem in read_problems(content)[1]


def test_the_controller_takes_a_job_with_dead_letters_as_a_start_does(tmp_path: Path) -> None:
    options = {"kafka.bootstrap.servers": "b:1", "subscribe": "t"}
    source = {"name": "a", "format": "kafka", "options": options, "value": {"format": "text"}, "onError": "deadLetter"}
    sinks = [{"name": each, "input": each, "format": "console"} for each in ("a", "a_dead_letters")]
    content = resource(
        {"job": {"sources": [source], "sinks": [{**each, "name": f"to-{each['name']}"} for each in sinks]}}
    )
    file = tmp_path / "departures.yaml"
    file.write_text(yaml.safe_dump(content))

    assert [each.name for each in load_job(file).spec.operators] == ["a_dead_letters", "a"]
    assert read_problems(content)[1] == ()
