"""`streamjob snapshots` on S3: jobs found without listing everything, verified and deleted."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest
from tests.servers.faulty import FaultyProxy, answer
from tests.servers.s3 import S3Server
from tests.unit.stored.job import Job
from typer.testing import CliRunner, Result

from streamjob.cli.main import app
from streamjob.ids import NO_BATCH, CheckpointId
from streamjob.protocol.log.records import JobId
from streamjob.store import LocalStore
from streamjob.store.opening import open_location
from streamjob_runtime.checkpointing.savepoints import Savepoint, savepoint_location
from streamjob_runtime.spark.checkpoint_dir.files import CutFiles
from streamjob_runtime.spark.checkpoint_dir.hold import Hold

pytestmark = pytest.mark.server


@pytest.fixture
def location(tmp_path: Path, s3_server: S3Server, s3_credentials: None) -> str:
    """A location in S3 with two jobs, the first of them with many objects, and something that is no job."""
    for job in (Job(tmp_path, JobId("default", "departures")), Job(tmp_path, JobId("other", "a"))):
        for number in (1, 2, 3):
            job.complete(number, *job.upload(offsets=b"o%d" % number, state=b"s%d" % number))
    location = f"s3://{s3_server.bucket}/snapshots/{uuid.uuid4().hex}"
    source, target = LocalStore(tmp_path), open_location(location).store()
    for entry in source.list(""):
        target.put(entry.key, source.get(entry.key))
    target.close()
    return location


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["snapshots", *map(str, arguments)])


def test_all_jobs_at_a_location_are_listed(location: str) -> None:
    listed = [json.loads(line) for line in run("list", location, "--json").stdout.splitlines()]

    assert [(each["job"], each["id"]) for each in listed] == [
        *(("departures", number) for number in (1, 2, 3)),
        *(("a", number) for number in (1, 2, 3)),
    ]


def test_snapshots_are_verified_and_one_can_be_named_by_its_manifest(location: str) -> None:
    assert run("verify", location).exit_code == 0
    assert run("verify", f"{location}/other/a/checkpoints/1-2/manifest.json").exit_code == 0
    assert run("show", f"{location}/other/a", 2).exit_code == 0


def test_a_savepoint_lies_in_a_directory_of_its_own_and_is_deleted_by_it(location: str, tmp_path: Path) -> None:
    root, place = f"{location}/default/departures/", f"{location}-savepoints"
    writing = Savepoint(savepoint_location(root, place, "departures", CheckpointId(4), "abc"), root)
    (tmp_path / "state").write_bytes(b"state")
    hold = Hold(tmp_path, CutFiles(NO_BATCH, ("state",), ()))
    files = writing.target.upload(hold)
    writing.write(Job(tmp_path / "made").manifest(4, "savepoint", files))
    writing.close()

    assert writing.reference == writing.uri == f"{place}/departures-4-abc/manifest.json"
    assert run("verify", writing.uri).exit_code == 0
    assert run("delete", f"{place}/departures-4-abc").exit_code == 0
    assert not list(open_location(place).store().list(""))


def test_a_savepoint_that_fails_leaves_nothing(location: str, tmp_path: Path) -> None:
    root = f"{location}/default/departures/"
    failing = Savepoint(savepoint_location(root, None, "departures", CheckpointId(4), "abc"), root)
    before = list(open_location(location).store().list(""))
    failing.write(Job(tmp_path / "made").manifest(4, "savepoint", ()))
    assert failing.reference == "savepoints/departures-4-abc/manifest.json"

    failing.discard()
    failing.close()

    assert list(open_location(location).store().list("")) == before


def test_an_old_checkpoint_is_deleted(location: str) -> None:
    result = run("delete", location, 2, "--name", "departures", "--fence", "--with-older", "--json")

    assert json.loads(result.stdout)["deleted"] == [1, 2]
    assert run("verify", location).exit_code == 0


def test_a_server_that_refuses_is_invalid_input(
    location: str, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
    proxy.on("*", answer(403, "AccessDenied"), times=float("inf"))
    result = run("list", location)

    assert result.exit_code == 2
    assert "s3:ListBucket" in result.stderr
