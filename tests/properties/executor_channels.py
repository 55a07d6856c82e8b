"""A channel of the job in `executors_world`: executors write its segments to their own disks, and read them there."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from streamjob.ids import BatchId, ChainUid, CheckpointId
from streamjob.protocol.emissions.channels import Entry, EntryKind, Segment
from streamjob.protocol.emissions.emitted import ChainCut
from streamjob.snapshot.manifest import ChannelState, FileRef, Manifest
from streamjob_runtime.chain.channels.in_flight import channel_states, names_in_flight, restored_log
from streamjob_runtime.checkpointing.segment_holds import Kept
from streamjob_runtime.checkpointing.upload.uploader import Progress
from streamjob_runtime.restoring.restoration import RestoredSegments

if TYPE_CHECKING:
    from tests.properties.executors_world import World

PRODUCER = ChainUid("numbers")
Result = TypeVar("Result")


class ChannelOnMachines:
    """The channel, from epoch to epoch: entry by entry, each a segment with the number of the entry in it.

    Args:
        world: the job.
        consumer: the chain that reads it.
    """

    def __init__(self, world: World, consumer: ChainUid) -> None:
        self._world = world
        self._consumer = consumer
        self._entries: dict[int, Entry] = {}
        self._written = 0
        self.read_again = 0
        """Segments that were read after a restore had brought them."""
        self.read_elsewhere = 0
        """Segments that were read by another executor than the one that has them."""
        self._restored: frozenset[str] = frozenset()
        self.consumed = self._next = 0

    def restored(self, manifest: Manifest | None) -> dict[ChainUid, RestoredSegments]:
        """Go back to a snapshot; return its segments in flight."""
        channels = () if manifest is None else manifest.channels
        if not channels:
            self._entries, self.consumed, self._next, self._restored = {}, 0, 0, frozenset()
            return {}
        log = restored_log(channels)
        self._entries = {entry.index: entry for entry in log.entries}
        self.consumed, self._next = channels[0].consumed, log.next
        self._restored = frozenset(segment.name for entry in log.entries for segment in entry.segments)
        return {PRODUCER: RestoredSegments(log.files, (self._consumer, PRODUCER))} if log.files else {}

    def write(self) -> None:
        """Let some executors write a segment each, and append them."""
        world = self._world
        there = list(world.machines.values())
        for machine in world.random.sample(there, min(len(there), world.random.randint(1, 2))):
            self._written += 1
            name, content = f"{self._written}.arrow", self._content(self._next)
            if world.machines.get(machine.name) is not machine or not world.on(
                machine, machine.write_segment, world.epoch, PRODUCER, name, content
            ):
                continue
            world.ends_epoch(world.state.segments.written, PRODUCER, {name: machine.number})
            segment = Segment(name=name, records=1, length=len(content))
            self._entries[self._next] = Entry(index=self._next, kind=EntryKind.DATA, segments=(segment,))
            self._next += 1

    def read(self, limit: int) -> None:
        """Let the consumer read some entries where they are, and forget them behind it."""
        world, begun = self._world, self.consumed
        done = []
        while self.consumed < min(self._next, begun + limit):
            (segment,) = self._entries[self.consumed].segments
            number = world.ends_epoch(world.state.segments.executor_of, PRODUCER, segment.name).id
            machine = next(each for each in world.machines.values() if each.number == number)
            if world.random.random() < 0.2:
                # Spark repeats a failed task anywhere.
                machine = world.random.choice(list(world.machines.values()))
                self.read_elsewhere += machine.number != number
            read = partial(machine.read_segment, world.epoch, PRODUCER, segment.name, self._content(self.consumed))
            if world.on(machine, self._running_commands, read) is None:
                continue
            self.read_again += segment.name in self._restored
            self.consumed += 1
            done.append(segment.name)
        world.state.segments.drop(PRODUCER, done)
        world.run_commands()

    def keep(self, checkpoint: CheckpointId) -> tuple[ChainCut, Kept]:
        """Cut the channel where it is, and let executors hold what is in flight."""
        entries = tuple(self._entries[index] for index in range(self.consumed, self._next))
        cut = ChainCut(
            chain=self._consumer,
            batch=BatchId(0),
            committables={},
            consumed={PRODUCER: self.consumed},
            in_flight={PRODUCER: entries},
            unaligned=True,
        )
        segments = names_in_flight(cut)
        kept = self._running_commands(lambda: self._world.state.keep(checkpoint, self._consumer, segments, Progress()))
        return cut, kept

    def states(self, cut: ChainCut, files: tuple[FileRef, ...]) -> tuple[ChannelState, ...]:
        """Return the channel as a manifest has it."""
        return channel_states(cut, files)

    def _running_commands(self, call: Callable[[], Result]) -> Result:
        """Make a call, while executors do what the driver asks for, and are killed.

        Raises EpochOver if one with files is killed, and the errors of the call.
        """
        from tests.properties.executors_world import EpochOver

        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(call)
            while not waiting.done():
                try:
                    self._world.run_commands()
                except EpochOver:
                    waiting.exception()
                    raise
            return waiting.result()

    def _content(self, index: int) -> bytes:
        return b"%d" % index * 100
