"""Stored snapshots without a running job: found, listed, shown, verified and deleted, through the command line."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from streamjob.cli.main import app
from streamjob.ids import Attempt, BatchId, ChainUid, CheckpointId, Epoch, Key, OperatorUid, Owner
from streamjob.protocol.log import JobId, read
from streamjob.protocol.manifests import encode_manifest
from streamjob.protocol.ownership import Claim, Completion, Identity, claim, complete
from streamjob.snapshot import keys
from streamjob.snapshot.manifest import ChainState, FileRef, InputState, Manifest, SinkState, SourceState
from streamjob.snapshot.record import RecordKind
from streamjob.store import LocalStore
from streamjob.store.effects import drive

JOB = JobId("default", "departures")


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@dataclass
class Job:
    """A job that completes checkpoints without Spark: each file of a checkpoint is an object, small ones a pack."""

    location: Path
    job: JobId = JOB
    time: float = 1_800_000_000.0
    claims: list[Claim] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = LocalStore(self.location / self.job.namespace / self.job.name)
        self.claim()

    @property
    def held(self) -> Claim:
        return self.claims[-1]

    def claim(self, attempt: int = 1) -> None:
        identity = Identity(job=self.job, owner=Owner(f"owner-{len(self.claims)}"), attempt=Attempt(attempt))
        held = drive(self.store, claim(identity, self.time))
        if held.unpublished is not None and held.unpublished.id is not None:
            held.published(held.unpublished.id)
        self.claims.append(held)

    def upload(self, **files: bytes) -> tuple[FileRef, ...]:
        """Upload files as one pack, in this order."""
        pack = b"".join(files.values())
        key = keys.shared_file(self.held.epoch, sha256(pack))
        self.store.put(key, pack)
        refs, offset = [], 0
        for path, content in files.items():
            refs.append(FileRef(path=path, object=key, offset=offset, length=len(content), sha256=sha256(content)))
            offset += len(content)
        return tuple(refs)

    def manifest(self, number: int, kind: str, files: tuple[FileRef, ...]) -> Manifest:
        chain = ChainState(
            uid=ChainUid("report"),
            operators=(OperatorUid("delays"),),
            batch=BatchId(7),
            watermark=1_357_000_000_000,
            inputs=(InputState(uid=OperatorUid("flights"), watermark_ms=1_357_000_000_000),),
            files=files,
        )
        return Manifest.model_validate(
            {
                "job": self.job.name,
                "namespace": self.job.namespace,
                "id": number,
                "epoch": self.held.epoch,
                "kind": kind,
                "triggered": self.time - 1.5,
                "completed": self.time,
                "graph": {},
                "chains": (chain,),
                "sources": (SourceState(uid=OperatorUid("flights"), position={"offset": 12}),),
                "sinks": (SinkState(uid=OperatorUid("out"), committables=("a", "b")),),
            }
        )

    def complete(self, number: int, *files: FileRef, kind: RecordKind = RecordKind.CHECKPOINT) -> Completion:
        key = keys.manifest(self.held.epoch, CheckpointId(number))
        self.store.put(key, encode_manifest(self.manifest(number, kind.value, files)))
        return self._record(kind, number, key)

    def savepoint(self, number: int, content: bytes) -> Path:
        """Take a savepoint in a directory of its own, beside the jobs."""
        directory = self.location / "savepoints" / f"{self.job.name}-{number}-abc"
        store = LocalStore(directory)
        store.put(Key("files/1"), content)
        file = FileRef(path="state", object="files/1", length=len(content), sha256=sha256(content))
        store.put(Key("manifest.json"), encode_manifest(self.manifest(number, "savepoint", (file,))))
        self._record(RecordKind.SAVEPOINT, number, f"{store.uri}manifest.json")
        return directory

    def _record(self, kind: RecordKind, number: int, manifest: str) -> Completion:
        done = drive(self.store, complete(self.held, kind, CheckpointId(number), manifest, self.time))
        self.held.published(CheckpointId(number))
        return done

    def objects(self) -> set[str]:
        return {entry.key for entry in self.store.list("")}


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A job with checkpoints 1 to 3: `common` is in all of them, each has a file of its own."""
    job = Job(tmp_path / "location")
    common = job.upload(**{"state/common": b"c" * 100})
    for number in (1, 2, 3):
        job.complete(number, *common, *job.upload(**{"offsets": b"o%d" % number, "state/own": b"s%d" % number}))
    return job


Run = Callable[..., Result]


@pytest.fixture
def run(job: Job, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("COLUMNS", "200")

    def invoke(*arguments: object) -> Result:
        return CliRunner().invoke(app, ["snapshots", *map(str, arguments)])

    return invoke


def lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def only_file(job: Job, number: int) -> Path:
    """Return the object that only this checkpoint refers to."""
    manifest = json.loads(job.store.get(keys.manifest(Epoch(1), CheckpointId(number))))
    last: str = manifest["chains"][0]["files"][-1]["object"]
    return job.location / job.job.namespace / job.job.name / last


def test_the_snapshots_of_a_job_are_listed_oldest_first(job: Job, run: Run) -> None:
    listed = lines(run("list", job.location, "--json"))

    assert [(each["id"], each["kind"], each["epoch"], each["newest"]) for each in listed] == [
        (1, "checkpoint", 1, False),
        (2, "checkpoint", 1, False),
        (3, "checkpoint", 1, True),
    ]
    assert {each["job"] for each in listed} == {"departures"}
    assert [each["stateSize"] for each in listed] == [104, 104, 104]
    assert listed[2]["manifest"] == f"{job.store.uri}checkpoints/1-3/manifest.json"


def test_a_place_may_be_the_location_the_root_the_name_or_the_manifest(job: Job, run: Run) -> None:
    root = job.store.uri
    ways: list[tuple[object, ...]] = [
        (job.location,),
        (root,),
        (job.location, "--name", "departures"),
        (job.location, "--namespace", "default"),
    ]
    outputs = {run("list", *way, "--json").stdout for way in ways}
    alone = lines(run("list", f"{root}checkpoints/1-2/manifest.json", "--json"))
    directory = lines(run("list", f"{root}checkpoints/1-2", "--json"))

    assert len(outputs) == 1
    assert [each["id"] for each in alone] == [each["id"] for each in directory] == [2]


def test_several_jobs_at_a_location_are_all_listed(job: Job, run: Run) -> None:
    for other in (JobId("default", "departures-2"), JobId("other", "a"), JobId("default", "departures.x")):
        Job(job.location, other).complete(1)
    found = [(each["namespace"], each["job"], each["id"]) for each in lines(run("list", job.location, "--json"))]

    assert sorted(found) == [
        ("default", "departures", 1),
        ("default", "departures", 2),
        ("default", "departures", 3),
        ("default", "departures-2", 1),
        ("default", "departures.x", 1),
        ("other", "a", 1),
    ]


def test_one_of_several_jobs_must_be_named(job: Job, run: Run) -> None:
    Job(job.location, JobId("other", "a")).complete(1)
    result = run("show", job.location)

    assert result.exit_code == 2
    assert "default/departures, other/a" in result.stderr
    assert run("show", job.location, "--name", "departures").exit_code == 0


def test_a_place_without_snapshots_says_so(tmp_path: Path, run: Run) -> None:
    result = run("list", tmp_path / "nothing")

    assert result.exit_code == 2
    assert "holds no log of a job" in result.stderr


def test_a_checkpoint_that_the_log_does_not_name_does_not_exist(job: Job, run: Run) -> None:
    job.store.put(keys.manifest(Epoch(1), CheckpointId(9)), encode_manifest(job.manifest(9, "checkpoint", ())))

    assert [each["id"] for each in lines(run("list", job.location, "--json"))] == [1, 2, 3]
    assert run("show", job.location, 9).exit_code == 2


def test_people_get_a_table(job: Job, run: Run) -> None:
    output = run("list", job.location).stdout

    assert "default/departures" in output
    assert "newest" in output
    assert "104 B" in output


def test_the_newest_snapshot_is_shown_with_its_parts(job: Job, run: Run) -> None:
    shown = lines(run("show", job.location, "--json"))[0]
    text = run("show", job.location).stdout

    assert (shown["id"], shown["newest"], shown["stateSize"], shown["objects"]) == (3, True, 104, 2)
    assert shown["chains"][0] | {"files": 3, "stateSize": 104, "batch": 7} == shown["chains"][0]
    assert shown["sources"][0]["position"] == {"offset": 12}
    for part in ("checkpoint 3", "2013-01-01", "flights", '{"offset":12}', "report", "after 1.5 s"):
        assert part in text


def test_whole_snapshots_are_verified_reading_each_object_once(job: Job, run: Run) -> None:
    result = run("verify", job.location)

    assert result.exit_code == 0
    assert result.stdout.count("whole") == 3
    assert "read 4 objects, 112 B" in result.stdout


def damage(path: Path, content: bytes | None) -> None:
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "does not exist; it holds offsets and 1 more"), (b"o2s", "ends before byte 4"), (b"o2XX", "is damaged")],
)
def test_all_that_is_wrong_is_reported(job: Job, run: Run, content: bytes | None, message: str) -> None:
    damage(only_file(job, 2), content)
    result = run("verify", job.location, "--json")
    found = {each["id"]: each for each in lines(result)}

    assert result.exit_code == 3
    assert [found[number]["whole"] for number in (1, 2, 3)] == [True, False, True]
    assert message in " ".join(found[2]["problems"])


def test_one_snapshot_can_be_verified_alone(job: Job, run: Run) -> None:
    damage(only_file(job, 2), None)

    assert run("verify", job.location, 3).exit_code == 0
    assert run("verify", job.location, 2).exit_code == 3
    assert run("verify", f"{job.store.uri}checkpoints/1-2/manifest.json").exit_code == 3
    assert run("verify", f"{job.store.uri}checkpoints/1-3").exit_code == 0


def test_damage_to_a_shared_file_is_reported_for_every_snapshot_that_needs_it(job: Job, run: Run) -> None:
    shared = (
        job.store.uri.removeprefix("file://")
        + json.loads(job.store.get(keys.manifest(Epoch(1), CheckpointId(1))))["chains"][0]["files"][0]["object"]
    )
    damage(Path(shared), b"x" * 100)

    assert [each["whole"] for each in lines(run("verify", job.location, "--json"))] == [False, False, False]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "does not exist"),
        (b"{", "is not a manifest"),
        (b'{"formatVersion": 99}', "format version 99"),
    ],
)
def test_a_manifest_that_cannot_be_read_is_reported_by_every_command(
    job: Job, run: Run, content: bytes | None, message: str
) -> None:
    damage(Path(job.store.uri.removeprefix("file://")) / "checkpoints/1-3/manifest.json", content)

    assert message in lines(run("list", job.location, "--json"))[2]["problem"]
    for command in ("show", "verify"):
        result = run(command, job.location, 3)
        assert result.exit_code == 3
        assert message in result.stdout


def test_a_checkpoint_that_was_subsumed_is_not_missed(job: Job, run: Run) -> None:
    damage(Path(job.store.uri.removeprefix("file://")) / "checkpoints/1-1/manifest.json", None)

    assert [each["id"] for each in lines(run("list", job.location, "--json"))] == [2, 3]
    assert run("verify", job.location).exit_code == 0
    assert "was subsumed" in run("show", job.location, 1).stderr


def test_a_checkpoint_that_is_missing_above_an_older_one_was_lost(job: Job, run: Run) -> None:
    damage(Path(job.store.uri.removeprefix("file://")) / "checkpoints/1-2/manifest.json", None)
    result = run("verify", job.location, "--json")

    assert result.exit_code == 3
    assert "while an older checkpoint does" in lines(result)[1]["problems"][0]


def test_a_log_that_cannot_be_read_is_an_error(job: Job, run: Run) -> None:
    job.store.put(keys.log_record(drive(job.store, read(JOB)).records[-1].seq), b"{}")

    assert run("list", job.location).exit_code == 3


def test_a_savepoint_is_listed_shown_and_verified_where_it_is(job: Job, run: Run) -> None:
    directory = job.savepoint(4, b"self-contained")

    assert lines(run("list", job.location, "--json"))[3]["manifest"] == f"file://{directory}/manifest.json"
    assert run("verify", job.location).exit_code == 0
    moved = directory.rename(directory.with_name("moved"))
    assert run("verify", moved).exit_code == 0
    assert run("verify", moved / "manifest.json").exit_code == 0
    assert run("verify", job.location).exit_code == 3


def test_the_newest_completion_is_never_deleted(job: Job, run: Run) -> None:
    before = job.objects()
    result = run("delete", job.location, 3, "--fence", "--with-older")

    assert result.exit_code == 2
    assert "restarts from it" in result.stderr
    assert job.objects() == before


def test_a_checkpoint_is_not_deleted_from_under_its_job(job: Job, run: Run) -> None:
    before = job.objects()
    result = run("delete", job.location, 1)

    assert result.exit_code == 2
    assert "--fence" in result.stderr
    assert job.objects() == before


def test_a_checkpoint_is_not_deleted_before_older_ones(job: Job, run: Run) -> None:
    before = job.objects()
    result = run("delete", job.location, 2, "--fence")

    assert result.exit_code == 2
    assert "older checkpoints than 2 are retained: 1" in result.stderr
    assert job.objects() == before


def test_deleting_a_checkpoint_takes_its_own_files_and_leaves_the_others_whole(job: Job, run: Run) -> None:
    own = only_file(job, 1)
    result = run("delete", job.location, 1, "--fence", "--json")

    assert lines(result) == [{"deleted": [1], "objects": 4}]
    assert not own.exists()
    assert [each["id"] for each in lines(run("list", job.location, "--json"))] == [2, 3]
    assert run("verify", job.location).exit_code == 0


def test_older_checkpoints_are_deleted_with_it_when_asked_for(job: Job, run: Run) -> None:
    assert run("delete", job.location, 2, "--fence", "--with-older").exit_code == 0
    assert [each["id"] for each in lines(run("list", job.location, "--json"))] == [3]
    assert run("verify", job.location).exit_code == 0
    assert sorted(key.partition("/")[0] for key in job.objects()) == ["checkpoints", "log", "log", "shared", "shared"]


def test_a_job_that_still_ran_completes_nothing_after_the_deletion(job: Job, run: Run) -> None:
    from streamjob.errors import Superseded

    run("delete", job.location, 1, "--fence")
    with pytest.raises(Superseded):
        job.complete(4)


def test_a_job_goes_on_after_the_deletion_with_ids_above_the_old_ones(job: Job, run: Run) -> None:
    run("delete", job.location, 2, "--fence", "--with-older")
    job.claim()

    assert job.held.newest is not None
    assert (job.held.newest.id, job.held.epoch) == (3, 3)
    job.complete(4)
    assert [each["id"] for each in lines(run("list", job.location, "--json"))] == [3, 4]


def test_a_deletion_stops_at_a_manifest_that_cannot_be_read(job: Job, run: Run) -> None:
    damage(Path(job.store.uri.removeprefix("file://")) / "checkpoints/1-3/manifest.json", b"{")
    kept = {key for key in job.objects() if not key.startswith("log/")}
    result = run("delete", job.location, 1, "--fence")

    assert result.exit_code == 5
    assert "nothing is deleted" in result.stderr
    assert {key for key in job.objects() if not key.startswith("log/")} == kept


def test_a_checkpoint_whose_manifest_is_damaged_can_be_deleted(job: Job, run: Run) -> None:
    damage(Path(job.store.uri.removeprefix("file://")) / "checkpoints/1-1/manifest.json", b"{")

    assert run("delete", job.location, 1, "--fence").exit_code == 0
    assert run("verify", job.location).exit_code == 0


def test_files_that_only_a_later_epoch_needs_are_spared(job: Job, run: Run) -> None:
    shared = job.upload(**{"state/own": b"again"})
    job.complete(4, *shared)
    job.claim()
    job.complete(5, *shared)

    assert run("delete", job.location, 4, "--fence", "--with-older").exit_code == 0
    assert run("verify", job.location).exit_code == 0


def test_a_savepoint_is_deleted_with_its_directory_and_without_fencing(job: Job, run: Run) -> None:
    directory = job.savepoint(4, b"state")
    job.complete(5)
    before = job.objects()

    assert lines(run("delete", job.location, 4, "--json")) == [{"deleted": [4], "objects": 2}]
    assert not (directory / "manifest.json").exists()
    assert not (directory / "files").exists()
    assert job.objects() == before
    job.complete(6)


def test_a_savepoint_that_is_the_newest_completion_stays(job: Job, run: Run) -> None:
    directory = job.savepoint(4, b"state")
    result = run("delete", job.location, 4)

    assert result.exit_code == 2
    assert (directory / "manifest.json").exists()


def test_a_savepoint_stays_the_newest_completion_when_all_checkpoints_are_deleted(job: Job, run: Run) -> None:
    job.savepoint(4, b"state")

    assert run("delete", job.location, 3, "--fence", "--with-older").exit_code == 0
    assert [(each["id"], each["newest"]) for each in lines(run("list", job.location, "--json"))] == [(4, True)]
    job.claim()
    assert job.held.last_id == 4


def test_a_savepoint_whose_files_another_checkpoint_refers_to_stays(job: Job, run: Run) -> None:
    directory = job.savepoint(4, b"state")
    claimed = FileRef(path="s", object=f"file://{directory}/files/1", length=5, sha256=sha256(b"state"))
    job.complete(5, claimed)
    result = run("delete", job.location, 4)

    assert result.exit_code == 2
    assert "refers to files of savepoint 4" in result.stderr
    assert run("verify", job.location).exit_code == 0
