"""In-flight data in snapshots: the output up to the producer's cut that the consumer's cut had not read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from streamjob.ids import ChainUid
from streamjob.protocol.emissions.channels import Entry
from streamjob.protocol.emissions.cuts import ChainCut
from streamjob.protocol.manifests.stored_streams import entry_of
from streamjob.snapshot.manifest import ChannelEntry, ChannelSegment, ChannelState, FileRef

_FOLDER = "channels/"


def segment_folder(producer: ChainUid) -> str:
    """Return the folder of a stream's segments among the files of a chain; no checkpoint contains such a folder."""
    return f"{_FOLDER}{producer}"


def segment_path(producer: ChainUid, name: str) -> str:
    """Return the path of a segment in snapshots."""
    return f"{segment_folder(producer)}/{name}"


def is_segment(path: str) -> bool:
    """Return whether a snapshot's file is a segment."""
    return path.startswith(_FOLDER)


def names_in_flight(cut: ChainCut) -> dict[ChainUid, tuple[str, ...]]:
    """Return the segments that a chain must store for a cut, each once, by the chain that wrote them."""
    entries = {producer: list(left) for producer, left in cut.in_flight.items()}
    for fed_back in cut.fed_back.values():
        entries.setdefault(cut.chain, []).extend(fed_back.entries)
    return {
        producer: tuple(dict.fromkeys(segment.name for entry in left for segment in entry.segments))
        for producer, left in entries.items()
    }


def channel_states(cut: ChainCut, files: Iterable[FileRef]) -> tuple[ChannelState, ...]:
    """Return the snapshot's description of the channels that a chain reads, and of the feedback channels that it
    writes.

    Args:
        files: its files in the store, including the segments in flight.
    """
    stored = {file.path: file for file in files if is_segment(file.path)}
    forward = [
        ChannelState(
            source=producer,
            target=cut.chain,
            consumed=cut.consumed[producer],
            next=cut.consumed[producer] + len(entries),
            ended=producer in cut.ended_inputs,
            entries=tuple(_stored(producer, entry, stored) for entry in entries),
        )
        for producer, entries in cut.in_flight.items()
    ]
    back = [
        ChannelState(
            source=cut.chain,
            target=consumer,
            consumed=fed_back.consumed,
            next=fed_back.consumed + len(fed_back.entries),
            ended=cut.ended,
            entries=tuple(_stored(cut.chain, entry, stored) for entry in fed_back.entries),
        )
        for consumer, fed_back in cut.fed_back.items()
    ]
    return (*forward, *back)


def _stored(producer: ChainUid, entry: Entry, stored: Mapping[str, FileRef]) -> ChannelEntry:
    segments = []
    for segment in entry.segments:
        file = stored[segment_path(producer, segment.name)]
        segments.append(ChannelSegment(**(file.model_dump() | {"records": segment.records})))
    return ChannelEntry(
        index=entry.index,
        kind=entry.kind,
        watermark=entry.watermark_ms,
        barrier=entry.barrier,
        segments=tuple(segments),
    )


@dataclass(frozen=True, slots=True)
class RestoredLog:
    """A producer's log as its consumers left it: the entries that one of them still has to read, and the next index."""

    entries: tuple[Entry, ...]
    next: int
    ended: bool
    files: tuple[FileRef, ...]


def restored_log(channels: Sequence[ChannelState]) -> RestoredLog:
    """Return a producer's log from a snapshot's description of its channels; there must be at least one."""
    entries: dict[int, Entry] = {}
    files: dict[str, FileRef] = {}
    for entry in (entry for channel in channels for entry in channel.entries):
        for file in entry.segments:
            files[file.path] = file
        entries[entry.index] = entry_of(entry, lambda file: Path(file.path).name)
    return RestoredLog(
        entries=tuple(entries[index] for index in sorted(entries)),
        next=max(channel.next for channel in channels),
        ended=any(channel.ended for channel in channels),
        files=tuple(files.values()),
    )
