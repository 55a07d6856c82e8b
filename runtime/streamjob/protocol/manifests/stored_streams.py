"""Reads the channels of a snapshot, and checks them against the rules of the format."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from streamjob.ids import ChainUid
from streamjob.protocol.emissions.channels import BrokenLog, ChannelLog, Entry, Segment
from streamjob.snapshot.manifest import ChannelEntry, ChannelSegment, ChannelState, EntryKind


def check_streams(channels: Sequence[ChannelState]) -> None:
    """Check that the channels of one writer agree about its stream, and that no entry is missing.

    Raises:
        BrokenLog: they disagree, or an entry is missing.
    """
    by_writer: dict[ChainUid, list[ChannelState]] = {}
    for channel in channels:
        _check_entries(channel)
        by_writer.setdefault(channel.source, []).append(channel)
    for writer, mine in by_writer.items():
        if len({channel.target for channel in mine}) < len(mine):
            raise BrokenLog(f"a channel from {writer} is there twice")
        if len({(channel.next, channel.ended) for channel in mine}) > 1:
            raise BrokenLog(f"the channels from {writer} do not agree on where its stream ends")
        # Readers upload separately, so the same segment may be in two objects.
        entries = [
            entry_of(entry, lambda file: f"{file.path} {file.sha256}") for channel in mine for entry in channel.entries
        ]
        ChannelLog(writer, entries, next_index=mine[0].next, ended=mine[0].ended)


def entry_of(stored: ChannelEntry, name_of: Callable[[ChannelSegment], str]) -> Entry:
    """Return a channel's entry as it was in its writer's stream; `name_of` returns the names of its segments."""
    return Entry(
        index=stored.index,
        kind=stored.kind,
        segments=tuple(
            Segment(name=name_of(file), records=file.records, length=file.length) for file in stored.segments
        ),
        watermark_ms=stored.watermark,
        barrier=stored.barrier,
    )


def _check_entries(channel: ChannelState) -> None:
    name = f"the channel from {channel.source} to {channel.target}"
    if channel.consumed > channel.next:
        raise BrokenLog(f"{name} is consumed up to {channel.consumed}, and written up to {channel.next} only")
    if [entry.index for entry in channel.entries] != list(range(channel.consumed, channel.next)):
        raise BrokenLog(f"{name} does not hold the entries from {channel.consumed} to below {channel.next}")
    for entry in channel.entries:
        if (entry.kind is EntryKind.BARRIER) is (entry.barrier is None):
            raise BrokenLog(f"entry {entry.index} of {name} is a barrier of no checkpoint, or no barrier and has one")
        if entry.segments and entry.kind is not EntryKind.DATA:
            raise BrokenLog(f"entry {entry.index} of {name} is of kind {entry.kind}, with data")
