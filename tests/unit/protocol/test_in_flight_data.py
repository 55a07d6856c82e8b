"""In-flight data in manifests: its JSON, and that its segments are shared and kept like files of state."""

from __future__ import annotations

import json

import pytest
from tests.faulty_store import FaultyStore
from tests.unit.protocol.life import JobEpoch, manifest_of, objects, sha256_of, stored

from streamjob.ids import ChainUid, CheckpointId, Key
from streamjob.protocol.log.ownership import IllegalStep
from streamjob.protocol.manifests.stored_manifests import decode_manifest, encode_manifest, find_problems
from streamjob.snapshot import keys
from streamjob.snapshot.manifest import ChannelEntry, ChannelSegment, ChannelState, EntryKind, FileRef, Manifest
from streamjob.store.effects import drive

A, B, C = ChainUid("a"), ChainUid("b"), ChainUid("c")


def segment(file: FileRef, name: str = "x") -> ChannelSegment:
    return ChannelSegment(**{**file.model_dump(), "path": f"a/{name}"}, records=3)


def stored_file(key: str = "shared/00/1-00") -> FileRef:
    return FileRef(path="f", object=key, length=7, sha256="00")


def channel(*segments: ChannelSegment, target: ChainUid = B) -> ChannelState:
    entries = [
        ChannelEntry(index=4 + number, kind=EntryKind.DATA, watermark=70, segments=(each,))
        for number, each in enumerate(segments)
    ]
    entries.append(ChannelEntry(index=4 + len(segments), kind=EntryKind.BARRIER, barrier=CheckpointId(3)))
    return ChannelState(source=A, target=target, consumed=4, next=5 + len(segments), entries=tuple(entries))


def with_channels(manifest: Manifest, *channels: ChannelState) -> Manifest:
    return manifest.model_copy(update={"channels": channels})


def test_channels_are_written_under_the_names_of_the_contract() -> None:
    written = json.loads(encode_manifest(with_channels(manifest_of(1, 3), channel(segment(stored_file())))))

    assert written["channels"] == [
        {
            "from": "a",
            "to": "b",
            "consumed": 4,
            "next": 6,
            "ended": False,
            "entries": [
                {
                    "index": 4,
                    "kind": "data",
                    "watermark": 70,
                    "barrier": None,
                    "segments": [
                        {
                            "path": "a/x",
                            "object": "shared/00/1-00",
                            "offset": 0,
                            "length": 7,
                            "sha256": "00",
                            "records": 3,
                        }
                    ],
                },
                {"index": 5, "kind": "barrier", "watermark": None, "barrier": 3, "segments": []},
            ],
        }
    ]


def test_a_manifest_with_channels_is_read_as_it_was_written() -> None:
    manifest = with_channels(manifest_of(1, 3), channel(segment(stored_file())))

    assert decode_manifest("manifest.json", encode_manifest(manifest)) == manifest


def test_a_manifest_of_a_release_without_channels_is_still_read() -> None:
    fields = json.loads(encode_manifest(manifest_of(1, 3)))
    fields["channels"] = [{"from": "a", "to": "b", "entries": []}]
    fields["formatVersion"] = 1

    (read,) = decode_manifest("manifest.json", json.dumps(fields).encode()).channels
    assert (read.consumed, read.next, read.ended, read.entries) == (0, 0, False, ())


def test_segments_count_among_a_manifests_files_once_however_many_read_them() -> None:
    state, in_flight = stored_file("shared/00/1-01"), segment(stored_file())
    manifest = with_channels(manifest_of(1, 3, (state,)), channel(in_flight), channel(in_flight, target=C))

    assert list(manifest.files()) == [state, in_flight]
    assert manifest.objects() == {"shared/00/1-00", "shared/00/1-01"}
    assert manifest.state_size() == 14


def test_a_chain_may_build_on_its_files_and_on_all_segments_of_the_streams_that_it_reads_and_writes() -> None:
    state, x, y = stored_file("shared/00/1-01"), segment(stored_file("shared/00/1-02")), segment(stored_file(), "y")
    manifest = with_channels(manifest_of(1, 3, (state,)), channel(x), channel(x, y, target=C))

    assert list(manifest.files_of(B)) == [x, y]
    assert list(manifest.files_of(C)) == [state, x, y]
    assert list(manifest.files_of(A)) == [x, y]


def test_segments_in_flight_are_shared_between_checkpoints_and_kept_as_long_as_one_refers_to_them(
    store: FaultyStore,
) -> None:
    life = JobEpoch(store, num_retained=1)

    def checkpoint(*contents: str) -> Manifest:
        manifest = life.begin()
        segments = [segment(life.refer(life.last, content), content) for content in contents]
        manifest = with_channels(manifest, channel(*segments))
        life.completion = life.complete(manifest)
        life.collect()
        return manifest

    first = checkpoint("one", "two")
    second = checkpoint("two", "three")
    assert len(objects(first) & objects(second)) == 1
    assert stored(store, keys.SHARED_PREFIX) == objects(second)

    third = checkpoint("four")
    assert stored(store, keys.SHARED_PREFIX) == objects(third)


def test_segments_of_the_restored_checkpoint_are_not_uploaded_again(store: FaultyStore) -> None:
    former = JobEpoch(store)
    manifest = former.begin()
    uploaded = former.refer(former.last, "one")
    former.complete(with_channels(manifest, channel(segment(uploaded))))

    life = JobEpoch(store)
    life.begin()
    found = life.registry.reuse(life.last, sha256_of("one"), 3)
    assert found is not None
    assert found.object == uploaded.object


def test_a_segment_that_nothing_protects_is_not_completed(store: FaultyStore) -> None:
    life = JobEpoch(store)
    manifest = with_channels(life.begin(), channel(segment(stored_file())))
    with pytest.raises(IllegalStep, match="refers to objects that nothing protects"):
        life.complete(manifest)


def test_a_missing_segment_is_a_problem_of_the_snapshot(store: FaultyStore) -> None:
    life = JobEpoch(store)
    uploaded = life.refer(life.begin().id, "one")
    manifest = with_channels(manifest_of(life.claim.epoch, life.last), channel(segment(uploaded)))
    record = life.complete(manifest).record
    assert drive(store, find_problems(record, {uploaded.object: 3})) == ()

    store.delete([Key(uploaded.object)])
    assert drive(store, find_problems(record, {})) == (f"{uploaded.object} does not exist",)
