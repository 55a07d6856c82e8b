"""What sinks keep where they write, damaged: `verify` and `check` name it without changing anything."""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path

import pytest
from pydantic import JsonValue
from tests.unit.runtime.test_restoring import FUSED, snapshot
from tests.unit.stored.job import Job
from typer.testing import CliRunner, Result

from streamjob.cli.main import app
from streamjob.errors import ExitCode
from streamjob.ids import CheckpointId, Epoch, OperatorUid
from streamjob.job.planning.graph import graph_of
from streamjob.protocol.log.records import JobId
from streamjob.sink import SinkContext
from streamjob.snapshot.manifest import SinkState
from streamjob_runtime.sinks.files.file_systems import LocalPlace
from streamjob_runtime.sinks.files.sink import FileSink

SINK = OperatorUid("to-counts")
STAGED = "_streamjob/staged/1/7-u/part-00000-x.csv"
ROWS = b"rows"


class World:
    """A job with a file sink that died before it published the rows of its last checkpoint."""

    def __init__(self, directory: Path) -> None:
        self.out = directory / "out"
        self.job = Job(directory / "location", JobId("default", "job"))
        self.file = directory / "job.yaml"
        options = {"format": "csv", "options": {"path": "out"}, "delivery": "exactly-once"}
        spec = FUSED.model_copy(update={"sinks": (FUSED.sinks[0].model_copy(update=options),)})
        self.file.write_text(json.dumps(spec.model_dump(mode="json", by_alias=True, exclude_unset=True)))
        self.sink = FileSink("csv", LocalPlace(self.out))
        self.sink.open(SinkContext("job", "default", SINK, Epoch(1), {}))
        files: list[JsonValue] = [{"path": "part-00000-x.csv", "size": len(ROWS), "sha256": sha256(ROWS).hexdigest()}]
        self.committable: dict[str, JsonValue] = {
            "formatVersion": 1,
            "directory": "_streamjob/staged/1/7-u",
            "id": "u",
            "files": files,
        }
        (self.out / STAGED).parent.mkdir(parents=True)
        (self.out / STAGED).write_bytes(ROWS)
        manifest = snapshot(spec)
        parts = {name: getattr(manifest, name) for name in ("operators", "sources")}
        graph = {**manifest.graph, "sinks": graph_of(spec, directory)["sinks"]}
        files_of_state = self.job.upload(**{"state/0/0/7_a.zip": b"state"})
        chains = tuple(chain.model_copy(update={"files": files_of_state}) for chain in manifest.chains)
        self.job.complete(
            1, chains=chains, graph=graph, sinks=(SinkState(uid=SINK, committables=(self.committable,)),), **parts
        )

    def verify(self) -> Result:
        return CliRunner().invoke(app, ["snapshots", "verify", str(self.job.location)])

    def check(self) -> Result:
        arguments = ["--no-spark", "--from", "latest", "--location", str(self.job.location), "--json"]
        return CliRunner().invoke(app, ["check", str(self.file), *arguments])


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_what_waits_to_be_published_is_no_problem_and_neither_is_what_was_published_and_consumed(world: World) -> None:
    assert (world.verify().exit_code, world.check().exit_code) == (0, 0), world.verify().output
    world.sink.commit(CheckpointId(1), [world.committable])
    (world.out / "part-1-0-u.csv").unlink()

    assert (world.verify().exit_code, world.check().exit_code) == (0, 0), world.verify().output


@pytest.mark.parametrize("content", [None, b"", b"row", b"rowt"])
def test_rows_that_could_not_be_published_any_more_are_named(world: World, content: bytes | None) -> None:
    if content is None:
        (world.out / STAGED).unlink()
    else:
        (world.out / STAGED).write_bytes(content)

    for result in (world.verify(), world.check()):
        assert result.exit_code == ExitCode.CANNOT_RESTORE
        assert f"rows of checkpoint 1 are neither published nor whole in {STAGED}" in result.output


def test_a_file_that_an_older_version_may_have_published_without_a_record_is_no_problem(world: World) -> None:
    owner = world.out / "_streamjob/owner.json"
    owner.write_text(json.dumps({**json.loads(owner.read_text()), "formatVersion": 1}))
    (world.out / STAGED).unlink()

    assert (world.verify().exit_code, world.check().exit_code) == (0, 0), world.verify().output


@pytest.mark.parametrize("name", ["owner.json", "committed/7-v.json"])
def test_a_damaged_record_is_named(world: World, name: str) -> None:
    record = world.out / "_streamjob" / name
    record.parent.mkdir(exist_ok=True)
    record.write_bytes(b'{"formatVersion"')

    verified, checked = world.verify(), world.check()

    for result in (verified, checked):
        assert result.exit_code == ExitCode.CANNOT_RESTORE
        assert f"_streamjob/{name} cannot be read: " in result.output


def test_a_damaged_record_that_is_not_the_newest_keeps_no_job_from_starting(world: World) -> None:
    old = world.out / "_streamjob" / "committed/7-v.json"
    old.parent.mkdir(exist_ok=True)
    old.write_bytes(b'{"formatVersion"')
    os.utime(old, (1, 1))
    world.sink.commit(CheckpointId(1), [world.committable])

    verified, checked = world.verify(), world.check()

    assert (verified.exit_code, checked.exit_code) == (ExitCode.CANNOT_RESTORE, ExitCode.OK)
    assert "_streamjob/committed/7-v.json cannot be read: " in checked.output


def test_a_log_that_is_older_than_the_output_is_said_by_a_check_as_by_a_start(world: World) -> None:
    world.sink.commit(CheckpointId(1), [world.committable])
    assert world.check().exit_code == 0
    world.sink.commit(CheckpointId(5), [{**world.committable, "id": "v", "files": []}])
    before = sorted(world.out.rglob("*"))

    found = world.check()
    assert found.exit_code == ExitCode.CANNOT_RESTORE
    (sink,) = (each for each in map(json.loads, found.stdout.splitlines()) if each["uid"] == SINK)
    assert (sink["verdict"], sink["cause"]) == ("refused", "PublishedBeyondTheLog")
    assert f"sink {SINK} has published checkpoint 5, and the log at " in sink["why"]
    assert "ends with checkpoint 1" in sink["why"]
    assert "makes a fork" in sink["fix"]
    assert sorted(world.out.rglob("*")) == before

    elsewhere = ["check", str(world.file), "--no-spark", "--location", str(world.file.with_name("new"))]
    refused = CliRunner().invoke(app, [*elsewhere, "--from", "latest"])
    assert refused.exit_code == ExitCode.CANNOT_RESTORE
    assert "names no checkpoint" in refused.output
    assert CliRunner().invoke(app, [*elsewhere, "--from", "none"]).exit_code == 0
