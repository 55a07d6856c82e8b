"""`streamjob check`: what a start would restore and refuse, told from the snapshot alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.runtime.test_restoring import FUSED, SPLIT, job, query, snapshot
from typer.testing import CliRunner

from streamjob.cli.main import app
from streamjob.ids import Key
from streamjob.job.spec import JobSpec
from streamjob.store.local import LocalStore


@pytest.fixture
def savepoint(tmp_path: Path) -> str:
    """Return the URI of a savepoint of the fused job."""
    manifest = snapshot(FUSED).model_copy(update={"kind": "savepoint"})
    place = tmp_path / "savepoints" / "job-3-a"
    LocalStore(place).put(Key("manifest.json"), manifest.model_dump_json(by_alias=True).encode())
    return place.as_uri()


def check(directory: Path, spec: JobSpec, *arguments: str) -> Any:
    file = directory / "job.yaml"
    # JSON is YAML.
    fields = spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    file.write_text(json.dumps(fields))
    return CliRunner().invoke(app, ["check", str(file), "--no-spark", *arguments])


def objects(output: str) -> dict[str, dict[str, Any]]:
    return {each["uid"]: each for each in map(json.loads, output.splitlines())}


def test_a_job_that_can_start_ends_with_0_and_an_object_for_each_part(tmp_path: Path, savepoint: str) -> None:
    done = check(tmp_path, SPLIT, "--from", savepoint, "--json")

    assert done.exit_code == 0, done.output
    found = objects(done.stdout)
    assert {uid: each["verdict"] for uid, each in found.items()} == {
        "job": "restored",
        "events": "rewritten",
        "clean": "restored",
        "counts": "rewritten",
        "to-counts": "restored",
        "clean -> counts": "new",
    }
    assert found["events"] == {
        "kind": "source",
        "uid": "events",
        "verdict": "rewritten",
        "why": "it is read on from its position, which moves from chain 'counts' to 'clean'",
        "cause": None,
        "fix": None,
        "decided": False,
    }


def test_a_job_that_would_be_refused_ends_with_3_and_says_why_and_what_to_do(tmp_path: Path, savepoint: str) -> None:
    done = check(tmp_path, job(query("clean", "events")), "--from", savepoint, "--json")

    assert done.exit_code == 3, done.output
    refused = objects(done.stdout)["counts"]
    assert (refused["verdict"], refused["cause"]) == ("refused", "NonRestoredState")
    assert "--allow-non-restored-state" in refused["fix"]
    given_up = check(tmp_path, job(query("clean", "events")), "--from", savepoint, "--allow-non-restored-state")
    assert given_up.exit_code == 0, given_up.output


def test_a_table_for_people_ends_with_what_to_do(tmp_path: Path, savepoint: str) -> None:
    refused = check(tmp_path, job(query("clean", "events")), "--from", savepoint)
    fine = check(tmp_path, FUSED, "--from", savepoint)

    assert "refused: Snapshot" in refused.output
    assert "fix: give the operators their old uid" in refused.output
    assert fine.output.endswith("the job can start from here\n")


def test_what_is_left_to_spark_is_said(tmp_path: Path, savepoint: str) -> None:
    changed = job(query("clean", "events"), query("counts", "clean", "SELECT DISTINCT k, at FROM {}"))

    done = check(tmp_path, changed, "--from", savepoint)

    assert "whether its state fits counts only Spark can tell; it was not asked" in done.output


def test_without_a_snapshot_the_job_begins_anew(tmp_path: Path) -> None:
    done = check(tmp_path, FUSED, "--from", "latest", "--location", str(tmp_path / "empty"))

    assert done.exit_code == 0, done.output
    assert "the job begins anew" in done.output


def test_a_snapshot_that_is_not_there_ends_with_3(tmp_path: Path) -> None:
    done = check(tmp_path, FUSED, "--from", str(tmp_path / "savepoints" / "none"))

    assert done.exit_code == 3, done.output
