"""`streamjob commits`: a checkpoint whose output a target refuses is got over without losing anything else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.unit.runtime.test_restoring import FUSED, snapshot
from tests.unit.stored.job import Job, lines
from typer.testing import CliRunner, Result

from streamjob.cli.main import app
from streamjob.errors import ExitCode
from streamjob.ids import CheckpointId, OperatorUid
from streamjob.job.loading.load import load_job
from streamjob.job.planning.graph import graph_of
from streamjob.protocol.log.records import JobId
from streamjob.snapshot.manifest import SinkState
from streamjob.stored.locations import JobLocation
from streamjob.stored.reading import read_job

SINKS = '''
from pathlib import Path
from streamjob.errors import StreamJobError
from streamjob.sink import Staged


class Table:
    """A sink whose committables are its rows; the target refuses the row 'bad'."""

    def open(self, context):
        self.path = Path(context.options["path"])
        if self.path.with_suffix(".locked").exists():
            raise StreamJobError(f"sink {context.uid}: the target is locked", "unlock it")

    def stage(self, batch, batch_id):
        return Staged(None)

    def commit(self, checkpoint, committables):
        if "bad" in committables:
            raise StreamJobError("sink one: the target refuses the row 'bad'", "correct it")
        self.path.write_text(",".join(committables))

    def rescue(self, checkpoint, committables, target):
        target.write_text("".join(f'"{row}"\\n' for row in committables))
        return len(committables)

    def abort(self):
        pass

    def close(self):
        pass


class Together(Table):
    """Commits with the others in one transaction; a row 'child' needs the row 'parent' there, or published before."""

    transaction = "all"

    def commit_together(self, checkpoint, output):
        rows = [row for _, committables in output for row in committables]
        parents = self.path.with_name("two")
        if "child" in rows and "parent" not in rows and not parents.exists():
            raise StreamJobError("sink one: a row has no parent", "publish it")
        for sink, committables in output:
            if "bad" in committables:
                raise StreamJobError(f"sink {sink.path.name}: the target refuses the row 'bad'", "correct it")
        for sink, committables in output:
            sink.path.write_text(",".join(committables))
'''

STUCK = {"one": ("good", "bad"), "two": ("x", "y")}


class World:
    """A job that died because the target of its sink `one` refuses a row of the last checkpoint."""

    def __init__(self, directory: Path, sink: str = "Table", output: Mapping[str, Sequence[str]] = STUCK) -> None:
        self.directory = directory
        (directory / "stuck_sinks.py").write_text(SINKS)
        sinks = tuple(
            FUSED.sinks[0].model_copy(
                update={"name": name, "uid": OperatorUid(name), "format": f"stuck_sinks:{sink}"}
                | {"options": {"path": str(directory / name)}}
            )
            for name in output
        )
        spec = FUSED.model_copy(update={"sinks": sinks})
        self.file = directory / "job.yaml"
        self.file.write_text(json.dumps(spec.model_dump(mode="json", by_alias=True, exclude_unset=True)))
        self.job = Job(directory / "location", JobId("default", "job"))
        self.job.complete(1, *self.job.upload(a=b"older"))
        manifest = snapshot(spec)
        # Two files with one content, in two objects, as two chains may have them.
        files = (*self.job.upload(a=b"state", b=b"b"), *self.job.upload(c=b"state"))
        chains = tuple(each.model_copy(update={"files": files}) for each in manifest.chains)
        parts: dict[str, Any] = {name: getattr(manifest, name) for name in ("operators", "sources")}
        graph = {**manifest.graph, "sinks": graph_of(load_job(self.file).spec, directory)["sinks"]}
        states = tuple(
            SinkState(uid=OperatorUid(uid), committables=tuple(rows), target=f"the table {uid}", journal=f"of {uid}")
            for uid, rows in output.items()
        )
        self.job.complete(2, chains=chains, graph=graph, sinks=states, **parts)

    def commits(self, *arguments: str, output: Sequence[str] = ("--json",)) -> Result:
        places = ["--location", str(self.job.location), *output]
        return CliRunner().invoke(app, ["commits", str(self.file), *places, *arguments])

    def give_up(self, uid: str) -> Result:
        return self.commits("--fence", "--give-up", uid, "--rows-to", str(self.directory / "rows.jsonl"))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_without_a_claim_what_is_to_be_committed_is_shown_and_nothing_changed(world: World) -> None:
    before = world.job.objects()
    result = world.commits()

    assert result.exit_code == 0, result.output
    assert [(each["checkpoint"], each["sink"], each["batches"]) for each in lines(result)] == [
        (2, "one", 2),
        (2, "two", 2),
    ]
    assert world.job.objects() == before


def test_commits_that_fail_are_told_with_their_reason_and_the_others_are_published(world: World) -> None:
    result = world.commits("--fence")

    assert result.exit_code == ExitCode.CANNOT_RESTORE
    one, two = lines(result)
    assert one["failure"] == "sink one: the target refuses the row 'bad'\n  fix: correct it"
    assert (two["published"], (world.directory / "two").read_text()) == (True, "x,y")


def test_a_commit_that_is_given_up_leaves_its_rows_in_a_file_and_the_same_state_under_a_new_checkpoint(
    world: World,
) -> None:
    result = world.give_up("one")

    assert result.exit_code == 0, result.output
    (done,) = lines(result)
    assert (done["checkpoint"], done["rows"], done["continuesFrom"]) == (2, 2, 3)
    assert (world.directory / "rows.jsonl").read_text() == '"good"\n"bad"\n'
    assert (world.directory / "two").read_text() == "x,y"
    assert not (world.directory / "one").exists()
    snapshots = read_job(JobLocation(world.job.job, world.job.store))
    before, after = snapshots.named(CheckpointId(2)).manifest, snapshots.named(None).manifest
    assert before is not None
    assert after is not None
    assert [(file.path, file.sha256) for file in after.files()] == [(file.path, file.sha256) for file in before.files()]
    assert (after.sources, after.operators) == (before.sources, before.operators)
    assert after.sinks == tuple(sink.model_copy(update={"committables": ()}) for sink in before.sinks)
    (note,) = after.graph["givenUp"]
    assert (note["sink"], note["checkpoint"], note["rows"]) == ("one", 2, 2)
    assert note["reason"] == "sink one: the target refuses the row 'bad'"
    assert CliRunner().invoke(app, ["snapshots", "verify", str(world.job.location)]).exit_code == 0
    assert world.commits("--fence").exit_code == 0


@pytest.mark.parametrize(
    ("uid", "why"), [("two", "has published its rows of checkpoint 2"), ("three", "has nothing to commit")]
)
def test_a_commit_that_does_not_fail_is_not_given_up(world: World, uid: str, why: str) -> None:
    result = world.give_up(uid)

    assert result.exit_code == ExitCode.INVALID_INPUT
    assert why in result.stderr
    assert not (world.directory / "rows.jsonl").exists()


def test_rows_that_only_the_whole_transaction_can_publish_are_published_and_not_given_up(tmp_path: Path) -> None:
    world = World(tmp_path, "Together", {"one": ("child",), "two": ("parent",)})
    result = world.give_up("one")

    assert result.exit_code == ExitCode.INVALID_INPUT
    assert "has published its rows of checkpoint 2" in result.stderr
    assert [(tmp_path / name).read_text() for name in ("one", "two")] == ["child", "parent"]


def test_of_a_transaction_only_the_sink_that_fails_alone_is_given_up(tmp_path: Path) -> None:
    world = World(tmp_path, "Together", {"one": ("child",), "two": ("parent",), "three": ("bad",)})

    refused = world.give_up("one")
    assert refused.exit_code == ExitCode.CANNOT_RESTORE
    assert "sink two fails, too: sink three: the target refuses the row 'bad'" in refused.stderr
    assert world.give_up("three").exit_code == 0
    assert [(tmp_path / name).read_text() for name in ("one", "two")] == ["child", "parent"]
    assert (tmp_path / "rows.jsonl").read_text() == '"bad"\n'


@pytest.mark.parametrize(("uid", "fails"), [("one", "two"), ("two", "one")])
def test_a_child_and_its_bad_parent_in_one_transaction_are_not_given_up_one_by_one(
    tmp_path: Path, uid: str, fails: str
) -> None:
    world = World(tmp_path, "Together", {"one": ("child",), "two": ("parent", "bad")})
    result = world.give_up(uid)

    assert result.exit_code == ExitCode.CANNOT_RESTORE
    assert f"sink {fails} fails, too" in result.stderr
    assert not (tmp_path / "rows.jsonl").exists()


def test_people_read_sentences(world: World) -> None:
    assert world.commits(output=()).stdout.splitlines()[0] == "checkpoint 2, sink one: batches to publish: 2"
    assert world.commits("--fence", output=()).stdout.splitlines() == [
        "checkpoint 2, sink one: not published: sink one: the target refuses the row 'bad'",
        "  fix: correct it",
        "checkpoint 2, sink two: published",
    ]
    rows = world.directory / "rows.jsonl"
    given_up = world.commits("--fence", "--give-up", "one", "--rows-to", str(rows), output=())
    where = f"in {rows}; the job continues from checkpoint 3"
    assert given_up.stdout == f"checkpoint 2, sink one: rows given up: 2, {where}\n"


def test_a_sink_that_cannot_be_opened_fails_alone_and_is_not_given_up(world: World) -> None:
    (world.directory / "two.locked").touch()
    result = world.commits("--fence")

    assert result.exit_code == ExitCode.CANNOT_RESTORE
    assert [(each["sink"], each["published"]) for each in lines(result)] == [("one", False), ("two", False)]
    assert lines(result)[1]["failure"] == "sink two: the target is locked\n  fix: unlock it"
    assert "sink two fails, too: sink two: the target is locked" in world.give_up("one").stderr
    assert "sink two: the target is locked" in world.give_up("two").stderr
    assert not (world.directory / "rows.jsonl").exists()


def test_a_file_that_cannot_be_written_is_refused_before_the_log_is_claimed(world: World) -> None:
    before = world.job.objects()
    bad = world.directory / "missing" / "rows.jsonl"
    result = world.commits("--fence", "--give-up", "one", "--rows-to", str(bad))

    assert result.exit_code == ExitCode.INVALID_INPUT
    assert f"{bad.parent} is not a directory that may be written" in result.stderr
    assert world.job.objects() == before


def test_a_file_that_exists_is_not_overwritten(world: World) -> None:
    (world.directory / "rows.jsonl").write_text("kept")

    assert world.give_up("one").exit_code == ExitCode.INVALID_INPUT
    assert (world.directory / "rows.jsonl").read_text() == "kept"


def test_options_that_belong_together_are_asked_for(world: World) -> None:
    assert world.commits("--give-up", "one").exit_code == ExitCode.INVALID_INPUT
