"""Watched emissions of chains named by letters, driven by hand; remembers what the effects said."""

from __future__ import annotations

from pydantic import JsonValue
from tests.models.watched_emissions import WatchedEmissions

from streamjob.ids import BatchId, ChainUid, CheckpointId, OperatorUid
from streamjob.protocol.emissions.channels import Entry, EntryKind, Segment
from streamjob.protocol.emissions.cuts import Batch, ChainCut, Effects, Output


class Graph:
    """Emissions of the chains in `channels`, such as "ac bc", and of `more` chains without channels."""

    def __init__(self, channels: str, more: str = "", feedback: str = "") -> None:
        pairs = [(ChainUid(pair[0]), ChainUid(pair[1])) for pair in channels.split()]
        back = [(ChainUid(pair[0]), ChainUid(pair[1])) for pair in feedback.split()]
        self.now = 0.0
        chains = dict.fromkeys([*(end for pair in pairs for end in pair), *(ChainUid(chain) for chain in more)])
        self.job = WatchedEmissions(chains, pairs, feedback=back, clock=lambda: self.now)
        self.cuts: dict[str, ChainCut] = {}
        self.log: dict[str, list[Entry]] = {chain: [] for chain in chains}
        self.frontiers: dict[str, int] = {}
        self.dropped: dict[str, int] = {}
        self.of: CheckpointId | None = None

    def emit(self, chain: str, *segments: str, watermark: int | None = None, staged: str = "", **consumed: int) -> None:
        """Commit the chain's next batch, which hands on segments of one record and ten bytes each."""
        output = None
        if segments or watermark is not None:
            handed_on = tuple(Segment(name=name, records=1, length=10) for name in segments)
            output = Output(segments=handed_on, watermark_ms=watermark)
        self._emit(chain, output, {OperatorUid("sink"): staged} if staged else {}, consumed)

    def read(self, chain: str, **consumed: int) -> None:
        """Commit a batch that consumes up to these positions, and hands on nothing."""
        self._emit(chain, None, {}, consumed)

    def _emit(
        self, chain: str, output: Output | None, staged: dict[OperatorUid, JsonValue], consumed: dict[str, int]
    ) -> None:
        batch = Batch(
            batch=BatchId(self.job.last_emitted(ChainUid(chain)) + 1),
            staged=staged,
            consumed={ChainUid(producer): position for producer, position in consumed.items()},
            output=output,
        )
        self._note(self.job.emit(ChainUid(chain), batch))

    def commit(self, chain: str) -> None:
        """Let Spark commit the chain's last emitted batch."""
        self._note(self.job.committed(ChainUid(chain), self.job.last_emitted(ChainUid(chain))))

    def end(self, chain: str) -> None:
        self._note(self.job.end(ChainUid(chain)))

    def trigger(self, checkpoint: int, *, unaligned: bool = False, seal: bool = False) -> None:
        self.cuts = {}
        self._note(self.job.trigger(CheckpointId(checkpoint), unaligned=unaligned, seal=seal))

    def switch(self, checkpoint: int) -> None:
        self._note(self.job.switch(CheckpointId(checkpoint)))

    def abort(self, checkpoint: int) -> None:
        self._note(self.job.abort(CheckpointId(checkpoint)))

    def complete(self, checkpoint: int) -> None:
        self._note(self.job.complete(CheckpointId(checkpoint)))

    def frontier(self, channel: str) -> int:
        return self.job.frontier(ChainUid(channel[0]), ChainUid(channel[1]))

    def is_cut(self) -> str:
        """Return the chains that the checkpoint triggered last has cut."""
        return "".join(sorted(self.cuts))

    def in_flight(self, channel: str) -> str:
        """Return what a cut found in flight in a channel, in short."""
        return brief(self.cuts[channel[1]].in_flight[ChainUid(channel[0])])

    def story(self, chain: str) -> str:
        """Return the chain's stream, in short."""
        return brief(self.log[chain])

    def _note(self, effects: Effects) -> None:
        for cut in effects.cuts:
            self.cuts[cut.chain] = cut
            self.of = effects.checkpoint
        for producer, entry in effects.appended:
            self.log[producer].append(entry)
        for (producer, consumer), frontier in effects.frontiers.items():
            assert frontier > self.frontiers.get(producer + consumer, 0)
            self.frontiers[producer + consumer] = frontier
        self.dropped.update({str(chain): below for chain, below in effects.dropped.items()})


def brief(entries: list[Entry] | tuple[Entry, ...]) -> str:
    """Return entries in short: segments by their names, `w` and a watermark, `|` and a barrier, `.` for the end."""
    shown = []
    for entry in entries:
        match entry.kind:
            case EntryKind.BARRIER:
                shown.append(f"|{entry.barrier}")
            case EntryKind.END:
                shown.append(".")
            case EntryKind.DATA:
                names = "".join(segment.name for segment in entry.segments)
                shown.append(names + ("" if entry.watermark_ms is None else f"w{entry.watermark_ms}"))
    return " ".join(shown)
