"""`streamjob check`: what a start would restore and refuse, told from the snapshot alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.jobs import job_spec, sql
from tests.unit.runtime.test_restoring import FUSED, SPLIT, snapshot
from typer.testing import CliRunner

from streamjob import runtime
from streamjob.cli.main import app
from streamjob.comparison.verdicts import Comparison, Finding, Kind, Verdict
from streamjob.ids import Epoch, Key, OperatorUid
from streamjob.job.model.spec import JobSpec
from streamjob.protocol.manifests.stored_manifests import encode_manifest
from streamjob.sink import SinkContext
from streamjob.store.local import LocalStore
from streamjob_runtime.sinks.files.file_systems import LocalPlace
from streamjob_runtime.sinks.files.sink import FileSink

FILED = FUSED.model_copy(
    update={"sinks": (FUSED.sinks[0].model_copy(update={"format": "parquet", "options": {"path": "out"}}),)}
)
"""The fused job, which writes files."""


@pytest.fixture
def savepoint(tmp_path: Path) -> str:
    """Return the URI of a savepoint of the fused job."""
    manifest = snapshot(FUSED).model_copy(update={"kind": "savepoint"})
    place = tmp_path / "savepoints" / "job-3-a"
    LocalStore(place).put(Key("manifest.json"), encode_manifest(manifest))
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
        "why": "it continues from its position, which moves from chain 'counts' to 'clean'",
        "cause": None,
        "fix": None,
        "decided": False,
    }


def test_a_job_that_would_be_refused_ends_with_3_and_says_why_and_what_to_do(tmp_path: Path, savepoint: str) -> None:
    done = check(tmp_path, job_spec(sql("clean", "events")), "--from", savepoint, "--json")

    assert done.exit_code == 3, done.output
    refused = objects(done.stdout)["counts"]
    assert (refused["verdict"], refused["cause"]) == ("refused", "NonRestoredState")
    assert "--allow-non-restored-state" in refused["fix"]
    given_up = check(tmp_path, job_spec(sql("clean", "events")), "--from", savepoint, "--allow-non-restored-state")
    assert given_up.exit_code == 0, given_up.output


def test_a_table_for_people_ends_with_what_to_do(tmp_path: Path, savepoint: str) -> None:
    refused = check(tmp_path, job_spec(sql("clean", "events")), "--from", savepoint)
    fine = check(tmp_path, FUSED, "--from", savepoint)

    assert "refused: Snapshot" in refused.output
    assert "fix: give the operators their old uid" in refused.output
    assert fine.output.endswith("the job can start from here\n")


def test_an_operator_whose_state_is_changed_is_shown_and_told_to_a_supervisor(
    tmp_path: Path, savepoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = "it continues with its state; its column n is total now"

    def examine(_loaded: Any, _found: Any, compared: Comparison, *_rest: Any, **_options: Any) -> Comparison:
        return compared.decided([Finding(kind=Kind.OPERATOR, uid="counts", verdict=Verdict.MIGRATED, why=why)])

    monkeypatch.setenv("STREAMJOB_TERMINATION_LOG", str(tmp_path / "termination"))
    monkeypatch.setattr(runtime, "examine", examine)

    shown = check(tmp_path, FUSED, "--from", savepoint)
    told = json.loads((tmp_path / "termination").read_text())
    as_json = check(tmp_path, FUSED, "--from", savepoint, "--json")

    assert shown.exit_code == 0, shown.output
    assert "migrated" in shown.output
    assert (told["state"], told["message"]) == ("FINISHED", f"operator 'counts' is migrated: {why}")
    assert objects(as_json.stdout)["counts"]["verdict"] == "migrated"


def test_what_is_left_to_spark_is_said(tmp_path: Path, savepoint: str) -> None:
    changed = job_spec(sql("clean", "events"), sql("counts", "clean", "SELECT DISTINCT k, at FROM {}"))

    done = check(tmp_path, changed, "--from", savepoint)

    assert "whether its state fits counts only Spark can check this, and it was not asked" in done.output


def test_without_a_snapshot_the_job_begins_anew(tmp_path: Path) -> None:
    done = check(tmp_path, FUSED, "--from", "latest", "--location", str(tmp_path / "empty"))

    assert done.exit_code == 0, done.output
    assert "the job starts without state" in done.output


def test_a_snapshot_that_is_not_there_ends_with_3(tmp_path: Path) -> None:
    done = check(tmp_path, FUSED, "--from", str(tmp_path / "savepoints" / "none"))

    assert done.exit_code == 3, done.output


def test_the_place_of_another_sink_is_refused_as_a_start_would_refuse_it(tmp_path: Path, savepoint: str) -> None:
    taken(tmp_path / "out", "report")

    done = check(tmp_path, FILED, "--from", savepoint, "--json")

    assert done.exit_code == 2, done.output
    found = objects(done.stdout)["to-counts"]
    assert (found["verdict"], found["cause"]) == ("refused", "PlaceTaken")
    assert "belongs to sink report of job default/job" in found["why"]


def test_a_job_that_begins_anew_is_refused_where_a_start_would_refuse_it(tmp_path: Path) -> None:
    taken(tmp_path / "out", "report")

    done = check(tmp_path, FILED, "--from", "latest", "--location", str(tmp_path / "empty"))

    assert done.exit_code == 2, done.output
    assert "belongs to sink report of job default/job" in done.output


def test_without_spark_brokers_are_not_asked_and_the_options_of_a_kafka_sink_are_checked(tmp_path: Path) -> None:
    options = {"kafka.bootstrap.servers": "nowhere.invalid:9092", "topic": "counts"}

    def checked(**more: str) -> Any:
        sink = FUSED.sinks[0].model_copy(update={"format": "kafka", "options": options | more})
        spec = FUSED.model_copy(update={"sinks": (sink,)})
        return check(tmp_path, spec, "--from", "latest", "--location", str(tmp_path / "location"))

    assert checked().exit_code == 0
    assert checked(commitsTopic="").exit_code == 2


def test_a_check_leaves_the_place_of_a_sink_as_it_is(tmp_path: Path, savepoint: str) -> None:
    assert check(tmp_path, FILED, "--from", savepoint).exit_code == 0

    assert not (tmp_path / "out").exists()


def test_batches_that_stay_staged_where_the_other_jobs_sink_wrote_are_named(tmp_path: Path) -> None:
    former = FILED.sinks[0].model_copy(update={"delivery": "exactly-once"})
    manifest = snapshot(FILED.model_copy(update={"sinks": (former,)})).model_copy(update={"kind": "savepoint"})
    LocalStore(tmp_path / "savepoint").put(Key("manifest.json"), encode_manifest(manifest))
    (tmp_path / "out/_streamjob/staged/2/7-u").mkdir(parents=True)
    elsewhere = FILED.sinks[0].model_copy(update={"options": {"path": "fresh"}})

    told = {}
    for name, spec in (("there", FILED), ("elsewhere", FILED.model_copy(update={"sinks": (elsewhere,)}))):
        done = check(tmp_path, spec, "--from", str(tmp_path / "savepoint"), "--json")
        assert done.exit_code == 0, done.output
        told[name] = objects(done.stdout)["to-counts"]["why"]

    assert f"stay at its former path {tmp_path / 'out'}: _streamjob/staged/2/7-u. Only the job" in told["elsewhere"]
    assert "it continues after its published output" in told["elsewhere"]
    assert "staged" not in told["there"]


def taken(path: Path, sink: str) -> None:
    """Let a sink of the job own a path."""
    FileSink("parquet", LocalPlace(path)).open(SinkContext("job", "default", OperatorUid(sink), Epoch(1), {}))


@pytest.mark.parametrize("start", ["latest", "none"])
def test_a_required_snapshot_that_is_not_there_is_refused(tmp_path: Path, start: str) -> None:
    arguments = ["--from", start, "--location", str(tmp_path / "empty")]

    assert check(tmp_path, FUSED, *arguments).exit_code == 0
    done = check(tmp_path, FUSED, *arguments, "--require-snapshot")

    assert done.exit_code == 3
    assert "a snapshot is required" in done.output
