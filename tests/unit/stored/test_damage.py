"""Every kind of stored object, damaged in every way, against every command that reads it.

A start either restores exactly the same as without the damage, or ends with an error that names the object and a way
out. `verify` names the object, unless the damage is harmless; harmless damage is listed here, with the reason.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.unit.runtime.test_restoring import SPLIT, snapshot
from tests.unit.stored.job import Job, sha256
from typer.testing import CliRunner, Result

from streamjob.cli.main import app
from streamjob.errors import ExitCode, StreamJobError
from streamjob.ids import Attempt, CheckpointId, Epoch, Key, LogSeq, OperatorUid, Owner
from streamjob.protocol.log.claiming import Marker
from streamjob.protocol.log.ownership import Identity
from streamjob.protocol.log.records import JobId
from streamjob.protocol.log.restore import ClaimMode
from streamjob.snapshot import keys
from streamjob.snapshot.manifest import ChannelEntry, ChannelSegment, ChannelState, EntryKind, FileRef, Manifest
from streamjob.store.local import LocalStore
from streamjob.stored import verify as verifying
from streamjob.stored.locations import JobLocation
from streamjob_runtime.checkpointing.ledger import Ledger, RestoreFrom
from streamjob_runtime.restoring.download import SnapshotFileCorrupt, SnapshotFileMissing, download

OWNER = JobId("default", "job")
HOWS = ("deleted", "truncated", "emptied", "one byte changed", "replaced")


@dataclass
class StoredJob:
    """A job that completed three checkpoints and a savepoint, and died right after its next claim."""

    job: Job
    file: Path
    savepoint: Path

    @property
    def location(self) -> Path:
        return self.job.location

    def path(self, kind: str) -> Path:
        """Return the file of the object of a kind."""
        newest = keys.manifest(Epoch(1), CheckpointId(4))
        manifest = Manifest.model_validate_json(self.job.store.get(newest))
        (segment,) = (each for channel in manifest.channels for entry in channel.entries for each in entry.segments)
        return {
            "claim record": self.job.path(keys.log_record(LogSeq(5))),
            "record of the newest completion": self.job.path(keys.log_record(LogSeq(4))),
            "record of the savepoint": self.job.path(keys.log_record(LogSeq(3))),
            "record of an older checkpoint": self.job.path(keys.log_record(LogSeq(2))),
            "copy of the highest record": self.job.path(keys.record_copy(LogSeq(5))),
            "copy of another record": self.job.path(keys.record_copy(LogSeq(4))),
            "newest manifest": self.job.path(newest),
            "older manifest": self.job.path(keys.manifest(Epoch(1), CheckpointId(1))),
            "state file of the newest checkpoint alone": self.job.path(manifest.chains[-1].files[-1].object),
            "state file of all checkpoints": self.job.path(manifest.chains[-1].files[0].object),
            "segment in flight": self.job.path(segment.object),
            "manifest of the savepoint": self.savepoint / "manifest.json",
            "file of the savepoint": self.savepoint / "files" / "1",
            "mark of the job that claimed": self.job.path(keys.claim_marker(keys.manifest(Epoch(1), CheckpointId(1)))),
            "staged rows": self.job.path(keys.staged_object(OperatorUid("to-counts"), Epoch(1), ROWS_NAME)),
            "object of the probe": self.job.path("probe/1-a/one"),
        }[kind]

    def other(self, kind: str) -> bytes:
        """Return a whole object of the same kind, which belongs elsewhere."""
        similar = {
            "claim record": keys.log_record(LogSeq(0)),
            "record of the newest completion": keys.log_record(LogSeq(1)),
            "record of the savepoint": keys.log_record(LogSeq(1)),
            "record of an older checkpoint": keys.log_record(LogSeq(1)),
            "copy of the highest record": keys.record_copy(LogSeq(0)),
            "copy of another record": keys.record_copy(LogSeq(1)),
            "newest manifest": keys.manifest(Epoch(1), CheckpointId(2)),
            "older manifest": keys.manifest(Epoch(1), CheckpointId(2)),
        }.get(kind)
        if similar is not None:
            return self.job.store.get(similar)
        if kind == "manifest of the savepoint":
            return self.job.store.get(keys.manifest(Epoch(1), CheckpointId(2)))
        if kind == "mark of the job that claimed":
            return Marker(kind="claim", job="third", namespace="default", root="file:///third/").encoded()
        content = self.path(kind).read_bytes()
        return content[::-1] if content[::-1] != content else b"x" * len(content)


KINDS = (
    "claim record",
    "record of the newest completion",
    "record of the savepoint",
    "record of an older checkpoint",
    "copy of the highest record",
    "copy of another record",
    "newest manifest",
    "older manifest",
    "state file of the newest checkpoint alone",
    "state file of all checkpoints",
    "segment in flight",
    "manifest of the savepoint",
    "file of the savepoint",
    "mark of the job that claimed",
    "staged rows",
    "object of the probe",
)

HARMLESS: dict[str, tuple[str, ...]] = {
    # Its writer may have died before it was written; the records protect each other.
    "copy of another record": ("deleted",),
    "copy of the highest record": ("deleted",),
    # The job deletes its oldest checkpoints itself, the manifest first.
    "older manifest": ("deleted",),
    # It names the snapshot's owner, not its content: a process that cannot read it spares the snapshot.
    "mark of the job that claimed": HOWS,
    # Rows that the sink has published, or that it misses when it publishes them (StagedRowsGone).
    "staged rows": ("deleted",),
    "object of the probe": HOWS,
}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StoredJob:
    monkeypatch.setenv("COLUMNS", "300")
    job = Job(tmp_path / "location", OWNER)
    manifest = snapshot(SPLIT)
    common = job.upload(**{"state/0/0/7_a.zip": b"c" * 100})
    (segment,) = job.upload(**{"channels/a/x": b"records in flight"})

    def complete(number: int) -> None:
        own = job.upload(**{"offsets/6": b"offsets %d" % number, "commits/6": b"commits %d" % number})
        chains = [chain.model_copy(update={"files": ()}) for chain in manifest.chains]
        chains[-1] = chains[-1].model_copy(update={"files": (*common, *own)})
        parts = {name: getattr(manifest, name) for name in ("graph", "operators", "sources", "sinks")}
        channels = tuple(in_flight(channel, segment) for channel in manifest.channels)
        job.complete(number, chains=tuple(chains), channels=channels, **parts)

    complete(1)
    complete(2)
    savepoint = job.savepoint(3, b"state of the savepoint")
    complete(4)
    job.store.put(Key(keys.claim_marker(keys.manifest(Epoch(1), CheckpointId(1)))), MARK)
    job.store.put(keys.staged_object(OperatorUid("to-counts"), Epoch(1), ROWS_NAME), ROWS)
    job.store.put(Key("probe/1-a/one"), b"x")
    job.claim_log()
    file = tmp_path / "job.yaml"
    # JSON is YAML.
    file.write_text(json.dumps(SPLIT.model_dump(mode="json", by_alias=True, exclude_unset=True)))
    return StoredJob(job, file, savepoint)


ROWS = b"rows that wait"
ROWS_NAME = "ab" * 16 + sha256(ROWS)
MARK = Marker(kind="claim", job="other", namespace="default", root="file:///other/").encoded()


def in_flight(channel: ChannelState, file: FileRef) -> ChannelState:
    segment = ChannelSegment(**file.model_dump(), records=3)
    entry = ChannelEntry(index=5, kind=EntryKind.DATA, segments=(segment,))
    return channel.model_copy(update={"consumed": 5, "next": 6, "entries": (entry,)})


def damage(world: StoredJob, kind: str, how: str) -> str:
    """Damage the object of a kind, and return its name."""
    path, other = world.path(kind), world.other(kind)
    content = path.read_bytes()
    middle = len(content) // 2
    match how:
        case "deleted":
            path.unlink()
        case "truncated":
            path.write_bytes(content[:middle])
        case "emptied":
            path.write_bytes(b"")
        case "one byte changed":
            path.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
        case "replaced":
            path.write_bytes(other)
    return path.relative_to(world.savepoint if world.savepoint in path.parents else world.job.path("")).as_posix()


def command(*arguments: object) -> Result:
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return result


def start(world: StoredJob, wanted: str, workdir: Path) -> Manifest:
    """Start the job as far as a start goes without Spark: claim, resolve, download."""
    identity = Identity(job=OWNER, owner=Owner("start"), attempt=Attempt(1))
    ledger = Ledger.claim(world.job.store, identity, lambda: 1.0, 3)
    resolution = ledger.resolve(RestoreFrom(wanted, ClaimMode.NO_CLAIM))
    assert resolution.manifest is not None, "the job starts from nothing"
    try:
        download(list(resolution.manifest.files()), ledger.locate(resolution), workdir)
    except (SnapshotFileMissing, SnapshotFileCorrupt) as error:
        raise ledger.explain_unusable(resolution, error.what) or error from error
    return resolution.manifest


def outcome(world: StoredJob, wanted: str, workdir: Path) -> Manifest | StreamJobError:
    try:
        return start(world, wanted, workdir)
    except StreamJobError as error:
        return error


def test_the_undamaged_job_starts_and_verifies(world: StoredJob, tmp_path: Path) -> None:
    assert command("snapshots", "verify", world.location).exit_code == 0
    assert checked(world, "latest").exit_code == 0, checked(world, "latest").output
    assert start(world, "latest", tmp_path / "work").id == 4
    assert start(world, world.savepoint.as_uri(), tmp_path / "other").id == 3


def checked(world: StoredJob, wanted: str) -> Result:
    return command("check", world.file, "--no-spark", "--from", wanted, "--location", world.location)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_reported_by_name_or_harmless(world: StoredJob, tmp_path: Path, kind: str, how: str) -> None:
    wanted = world.savepoint.as_uri() if "of the savepoint" in kind and "record" not in kind else "latest"
    verified, found, shown = (
        command("snapshots", "verify", world.location),
        checked(world, wanted),
        command("snapshots", "inspect", world.location),
    )
    name = damage(world, kind, how)
    harmless = how in HARMLESS.get(kind, ())
    missing_copy = "copy" in kind and how == "deleted"

    result = command("snapshots", "verify", world.location)
    if harmless:
        assert (result.exit_code, result.output) == (0, verified.output) or kind == "older manifest" or missing_copy
        assert not missing_copy or (result.exit_code == 0 and f"{name} is missing" in result.output)
    else:
        assert result.exit_code == ExitCode.CANNOT_RESTORE
        assert name in result.output

    for now, before in ((checked(world, wanted), found), (command("snapshots", "inspect", world.location), shown)):
        if (now.exit_code, now.stdout) != (before.exit_code, before.stdout):
            assert not harmless
            assert now.exit_code == ExitCode.CANNOT_RESTORE
            assert name in now.output

    before_start = world.job.objects()
    started = outcome(world, wanted, tmp_path / "work")
    if isinstance(started, StreamJobError):
        assert not harmless
        assert started.exit_code is ExitCode.CANNOT_RESTORE
        assert name in started.what
        assert started.fix or wanted != "latest", "no way out is said"
    else:
        assert started.id == (4 if wanted == "latest" else 3)
    assert world.job.objects() >= before_start, "a start deletes nothing"


def test_large_staged_rows_are_compared_in_pieces(world: StoredJob, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = world.path("staged rows")
    monkeypatch.setattr(verifying, "_WHOLE_BELOW", len(ROWS) - 1)
    monkeypatch.setattr(verifying, "_PIECE", 3)
    monkeypatch.setattr(LocalStore, "get", lambda *_: pytest.fail("reads a large object at once"))
    location = JobLocation(OWNER, world.job.store)

    assert verifying.damaged_rows(location) == []
    rows.chmod(0o644)
    rows.write_bytes(ROWS[:-1] + b"?")
    (problem,) = verifying.damaged_rows(location)
    assert f"is damaged: its SHA-256 is {sha256(ROWS[:-1] + b'?')}" in problem
