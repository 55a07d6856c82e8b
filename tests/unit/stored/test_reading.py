"""Stored snapshots without a running job: found, listed, shown and verified, through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.stored.job import JOB, Job, Run, damage, lines

from streamjob.ids import ChainUid, CheckpointId, Epoch
from streamjob.protocol.log.records import JobId, read
from streamjob.protocol.log.restore import ClaimMode, Resolution
from streamjob.protocol.manifests.stored_manifests import encode_manifest
from streamjob.snapshot import keys
from streamjob.snapshot.manifest import ChannelEntry, ChannelSegment, ChannelState, EntryKind
from streamjob.snapshot.record import RecordKind
from streamjob.store.effects import drive
from streamjob.stored.start_snapshot import home_of


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


def test_the_last_snapshot_of_a_finished_job_is_called_final(job: Job, run: Run) -> None:
    job.complete(4, *job.upload(offsets=b"o4"), kind=RecordKind.FINAL)

    assert [each["kind"] for each in lines(run("list", job.location, "--json"))][-2:] == ["checkpoint", "final"]
    assert "departures  epoch 1, finished" in run("list", job.location).stdout
    assert "final 4, the newest" in run("show", job.location).stdout


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


def test_data_in_flight_is_counted_by_channel(job: Job, run: Run) -> None:
    (file,) = job.upload(segment=b"rows")
    segments = [ChannelSegment(**{**file.model_dump(), "path": f"channels/a/{each}"}, records=1500) for each in "xy"]
    entries = [
        *(ChannelEntry(index=4 + at, kind=EntryKind.DATA, segments=(each,)) for at, each in enumerate(segments)),
        ChannelEntry(index=6, kind=EntryKind.END),
    ]
    writer, reader, other = ChainUid("a"), ChainUid("b"), ChainUid("c")
    channels = (
        ChannelState(source=writer, target=reader, consumed=4, next=7, ended=True, entries=tuple(entries)),
        ChannelState(source=writer, target=other, consumed=7, next=7, ended=True),
        ChannelState(source=reader, target=other, consumed=9, next=9),
    )
    job.complete(4, file, channels=channels)

    shown = lines(run("show", job.location, "--json"))[0]["channels"]
    text = [" ".join(line.split()) for line in run("show", job.location).stdout.splitlines()]

    assert shown == [
        {"from": "a", "to": "b", "consumed": 4, "next": 7, "ended": True, "entries": 3, "records": 3000, "bytes": 8},
        {"from": "a", "to": "c", "consumed": 7, "next": 7, "ended": True, "entries": 0, "records": 0, "bytes": 0},
        {"from": "b", "to": "c", "consumed": 9, "next": 9, "ended": False, "entries": 0, "records": 0, "bytes": 0},
    ]
    at = text.index("channel entries in flight records size")
    assert text[at + 2 : at + 5] == ["a → b 3 3,000 8 B ended", "a → c 0 0 0 B ended", "b → c 0 0 0 B"]


def test_a_job_of_one_chain_shows_no_channels(job: Job, run: Run) -> None:
    assert lines(run("show", job.location, "--json"))[0]["channels"] == []
    assert "channel" not in run("show", job.location).stdout


def test_whole_snapshots_are_verified_reading_each_object_once(job: Job, run: Run) -> None:
    result = run("verify", job.location)

    assert result.exit_code == 0
    assert result.stdout.count("whole") == 3
    assert "read 4 objects, 112 B" in result.stdout


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "does not exist; it holds offsets and 1 more"), (b"o2s", "ends before byte 4"), (b"o2XX", "is damaged")],
)
def test_all_that_is_wrong_is_reported(job: Job, run: Run, content: bytes | None, message: str) -> None:
    damage(job.own_object(2), content)
    result = run("verify", job.location, "--json")
    found = {each["id"]: each for each in lines(result)}

    assert result.exit_code == 3
    assert [found[number]["whole"] for number in (1, 2, 3)] == [True, False, True]
    assert message in " ".join(found[2]["problems"])


def test_one_snapshot_can_be_verified_alone(job: Job, run: Run) -> None:
    damage(job.own_object(2), None)

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
    damage(job.path("checkpoints/1-3/manifest.json"), content)

    assert message in lines(run("list", job.location, "--json"))[2]["problem"]
    for command in ("show", "verify"):
        result = run(command, job.location, 3)
        assert result.exit_code == 3
        assert message in result.stdout


def test_a_checkpoint_that_was_subsumed_is_not_missed(job: Job, run: Run) -> None:
    damage(job.path("checkpoints/1-1/manifest.json"), None)

    assert [each["id"] for each in lines(run("list", job.location, "--json"))] == [2, 3]
    assert run("verify", job.location).exit_code == 0
    assert "was subsumed" in run("show", job.location, 1).stderr


def test_a_checkpoint_that_is_missing_above_an_older_one_was_lost(job: Job, run: Run) -> None:
    damage(job.path("checkpoints/1-2/manifest.json"), None)
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


def found(job: Job, reference: str, kind: str = "checkpoint") -> Resolution:
    return Resolution(
        manifest=job.manifest(1, kind, ()),
        reference=reference,
        record=None,
        fork=False,
        mode=ClaimMode.CLAIM,
        reusable=False,
        last_id=CheckpointId(1),
    )


def test_a_checkpoint_of_the_job_itself_is_read_from_its_own_store(job: Job) -> None:
    assert home_of(found(job, "checkpoints/1-1/manifest.json"), job.store) is job.store


@pytest.mark.parametrize(
    ("place", "kind", "home"),
    [
        ("ns/other/checkpoints/1-1/manifest.json", "checkpoint", "ns/other/"),
        ("copied/manifest.json", "checkpoint", "copied/"),
        ("savepoints/1/manifest.json", "savepoint", "savepoints/1/"),
        ("ns/other/checkpoints/1-1/manifest.json", "savepoint", "ns/other/checkpoints/1-1/"),
    ],
    ids=["another job's checkpoint", "a copied checkpoint", "a savepoint", "a savepoint among checkpoints"],
)
def test_a_snapshot_elsewhere_is_read_from_there(job: Job, place: str, kind: str, home: str) -> None:
    root = job.store.uri.removesuffix("/default/departures/")

    assert home_of(found(job, f"{root}/{place}", kind), job.store).uri == f"{root}/{home}"


def test_a_savepoint_of_the_job_itself_is_read_from_its_directory(job: Job) -> None:
    home = home_of(found(job, "savepoints/1/manifest.json", "savepoint"), job.store)

    assert home.uri == f"{job.store.uri}savepoints/1/"
