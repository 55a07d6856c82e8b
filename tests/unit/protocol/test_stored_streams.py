"""A snapshot's description of its channels is checked before it is used."""

from __future__ import annotations

from typing import Any

import pytest
from tests.faulty_store import FaultyStore
from tests.unit.coordinator.graph import Graph
from tests.unit.protocol.life import JobEpoch, key_of, manifest_of, without_recovery

from streamjob.ids import ChainUid, CheckpointId
from streamjob.protocol.log.restore import LatestUnusable
from streamjob.protocol.manifests.stored_manifests import SnapshotCorrupt, decode_manifest, encode_manifest
from streamjob.protocol.manifests.stored_streams import check_streams
from streamjob.snapshot.manifest import ChannelEntry, ChannelSegment, ChannelState, EntryKind, FileRef, Manifest
from streamjob_runtime.chain.channels.in_flight import channel_states, segment_path

A, B, C = ChainUid("a"), ChainUid("b"), ChainUid("c")


def data(index: int, sha256: str = "00", *, records: int = 3) -> ChannelEntry:
    segment = ChannelSegment(
        path=f"channels/a/{index}", object=f"shared/{sha256}", length=7, sha256=sha256, records=records
    )
    return ChannelEntry(index=index, kind=EntryKind.DATA, segments=(segment,))


def barrier(index: int, checkpoint: int | None = 3) -> ChannelEntry:
    return ChannelEntry(
        index=index, kind=EntryKind.BARRIER, barrier=None if checkpoint is None else CheckpointId(checkpoint)
    )


def end(index: int) -> ChannelEntry:
    return ChannelEntry(index=index, kind=EntryKind.END)


def channel(*entries: ChannelEntry, target: ChainUid = B, **fields: Any) -> ChannelState:
    given: dict[str, Any] = {"source": A, "target": target, "consumed": 4, "next": 4 + len(entries), "entries": entries}
    return ChannelState(**(given | fields))


def with_channels(manifest: Manifest, *channels: ChannelState) -> Manifest:
    return manifest.model_copy(update={"channels": channels})


@pytest.mark.parametrize(
    ("channels", "problem"),
    [
        ([channel(data(4), data(6))], "the channel from a to b does not hold the entries from 4 to below 6"),
        ([channel(data(4), next=6)], "does not hold the entries from 4 to below 6"),
        ([channel(data(5), data(4))], "does not hold the entries from 4 to below 6"),
        ([channel(consumed=5, next=4)], "is consumed up to 5, and written up to 4 only"),
        ([channel(consumed=-1, next=0)], "does not hold the entries from -1"),
        ([channel(barrier(4, None))], "entry 4 of the channel from a to b is a barrier of no checkpoint"),
        ([channel(data(4).model_copy(update={"barrier": CheckpointId(3)}))], "or no barrier and has one"),
        (
            [channel(data(4).model_copy(update={"kind": EntryKind.END}), ended=True)],
            "entry 4 of the channel from a to b is of kind end, with data",
        ),
        ([channel(end(4), data(5), ended=True)], "the end of a's stream, entry 4, is not its last entry"),
        ([channel(end(4))], "the end of a's stream, entry 4, is not its last entry"),
        ([channel(data(4), ended=True)], "has ended, but entry 4 is not its end"),
        ([channel(), channel()], "a channel from a is there twice"),
        ([channel(), channel(data(4), target=C)], "the channels from a do not agree on where its stream ends"),
        ([channel(end(4), ended=True), channel(consumed=5, next=5, target=C)], "do not agree"),
        ([channel(data(4)), channel(data(4, "01"), target=C)], "entry 4 of a's stream is given twice, and not the"),
        ([channel(data(4)), channel(data(4, records=2), target=C)], "given twice"),
    ],
)
def test_a_manifest_with_channels_that_cannot_be_is_corrupt(channels: list[ChannelState], problem: str) -> None:
    content = encode_manifest(with_channels(manifest_of(1, 3), *channels))

    with pytest.raises(SnapshotCorrupt, match=r"^manifest\.json has channels that cannot be restored: ") as raised:
        decode_manifest("manifest.json", content)
    assert problem in raised.value.what


def test_readers_of_one_stream_may_have_left_different_parts_of_it_in_different_objects() -> None:
    elsewhere = data(5).model_copy(
        update={"segments": tuple(each.model_copy(update={"object": "shared/other"}) for each in data(5).segments)}
    )

    check_streams([channel(data(4), data(5), end(6), ended=True)])
    check_streams(
        [
            channel(data(4), data(5), barrier(6)),
            channel(elsewhere, barrier(6), consumed=5, next=7, target=C),
            channel(consumed=7, next=7, target=ChainUid("d")),
        ]
    )
    check_streams([channel(consumed=0, next=0)])
    check_streams([channel(consumed=7, next=7, ended=True)])


def test_what_a_switched_checkpoint_of_a_graph_says_of_its_channels_can_be() -> None:
    job = Graph("ab ac bd cd")
    job.emit("a", "a0", "a1")
    job.trigger(1)
    job.emit("b", "b0", a=3)
    job.emit("a", "a2")
    job.emit("c", "c0", a=1)
    job.end("a")
    job.switch(1)

    assert job.is_cut() == "abcd"
    states = [state for cut in job.cuts.values() for state in channel_states(cut, files_of(job))]
    assert [(state.source + state.target, state.consumed, state.next) for state in states] == [
        ("ab", 3, 3),
        ("ac", 1, 3),
        ("bd", 0, 2),
        ("cd", 0, 1),
    ]
    check_streams(states)


def files_of(job: Graph) -> list[FileRef]:
    """Return the segments of all streams as if they were stored."""
    return [
        FileRef(path=segment_path(ChainUid(chain), each.name), object=each.name, length=each.length, sha256=each.name)
        for chain, entries in job.log.items()
        for entry in entries
        for each in entry.segments
    ]


def test_a_latest_checkpoint_with_broken_channels_is_an_error_that_names_a_whole_older_one(store: FaultyStore) -> None:
    first = JobEpoch(store)
    first.checkpoint("a")
    newest = first.checkpoint("b")
    store.put(key_of(newest), encode_manifest(with_channels(newest, channel(data(4), next=6))))

    with pytest.raises(LatestUnusable, match=r"checkpoint 2 .* has channels that cannot be restored") as raised:
        without_recovery(store).resolve()
    assert "checkpoint 1 is whole" in raised.value.fix
