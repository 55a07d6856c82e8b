"""The manifest: what one checkpoint or savepoint consists of."""

from __future__ import annotations

from collections.abc import Iterator, Set
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel

from streamjob.ids import BatchId, ChainUid, CheckpointId, Epoch, OperatorUid
from streamjob.snapshot.state_form import StateForm

MANIFEST_FORMAT_VERSION: Literal[2] = 2


class Part(BaseModel):
    """Base of the manifest's parts: immutable, camelCase in JSON.

    Defaults are for version 1, and for whoever makes a manifest; in version 2 every field is stored, and none is
    missing or unknown (`protocol.decoding`).
    """

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, extra="ignore")


class FileRef(Part):
    """A file of a chain's Spark checkpoint, or a piece of one, and where its bytes are stored.

    `path` is relative to the chain's checkpoint directory. `object` is a key relative to the job's root or an absolute
    URI; the file is its `length` bytes from `offset` (several small files share one object). `sha256` is of these.
    A file that grows by appending may be several of them, one for each piece, with the same path; `at` is where in the
    file a piece begins.
    """

    path: str
    object: str
    offset: int = 0
    length: int
    sha256: str
    at: int = Field(default=0, exclude_if=lambda at: at == 0)


class OperatorState(Part):
    """Where an operator ran, and whether its work is done for good."""

    uid: OperatorUid
    chain: ChainUid
    finished: bool = False


class InputState(Part):
    """One input of a chain at the cut: its own watermark, in ms since 1970 (Spark keeps only the smallest)."""

    uid: OperatorUid
    watermark_ms: int | None = None
    ended: bool = False


class ChainState(Part):
    """A chain after one published and committed batch; `batch` -1 means that it had not run one yet.

    `stateful` has Spark's names of its stateful operators, by Spark's numbers of them, and `forms`, in the same order,
    the forms in which they keep their state; older versions wrote none.
    """

    uid: ChainUid
    operators: tuple[OperatorUid, ...]
    batch: BatchId
    watermark: int | None = None
    inputs: tuple[InputState, ...] = ()
    stateful: tuple[str, ...] = ()
    forms: tuple[StateForm, ...] = ()
    files: tuple[FileRef, ...] = ()


class EntryKind(StrEnum):
    """Kinds of entries in the stream from one chain to another."""

    DATA = "data"
    BARRIER = "barrier"
    END = "end"


class ChannelSegment(FileRef):
    """A file of whole records that is in flight; `path` ends with its name in the producer's stream."""

    records: int


class ChannelEntry(Part):
    """An entry in flight: data in its segments with the watermark behind it (ms since 1970), a barrier, or the end."""

    index: int
    kind: EntryKind
    watermark: int | None = None
    barrier: CheckpointId | None = None
    segments: tuple[ChannelSegment, ...] = ()


class ChannelState(Part):
    """In-flight data of a channel: what the producer's cut has published minus what the consumer's has consumed.

    `consumed` is the index of the entry that the consumer reads next, `next` that of the entry which the producer
    appends next; `entries` are those between. `ended` says that the producer appends none any more.
    """

    source: ChainUid
    target: ChainUid
    consumed: int = 0
    next: int = 0
    ended: bool = False
    entries: tuple[ChannelEntry, ...] = ()

    model_config = ConfigDict(
        frozen=True,
        populate_by_name=True,
        extra="ignore",
        alias_generator=lambda name: {"source": "from", "target": "to"}.get(name, name),
    )


class SourceState(Part):
    """How far a source was read, and for a bounded one where it ends (fixed at the first start)."""

    uid: OperatorUid
    position: JsonValue = None
    end: JsonValue = None


class SinkState(Part):
    """What a sink staged since the last completed checkpoint: to be published once the log names this manifest."""

    uid: OperatorUid
    committables: tuple[JsonValue, ...] = ()


class Manifest(Part):
    """A checkpoint or savepoint: complete, immutable, and real only when a record of the log names it.

    `triggered` and `completed` are seconds since 1970; `graph` is the job's graph as it ran (names, formats, options
    without secrets), so that a restore can be checked and sinks can be built from the snapshot alone.
    """

    format_version: Literal[1, 2] = MANIFEST_FORMAT_VERSION
    job: str
    namespace: str
    id: CheckpointId
    epoch: Epoch
    kind: Literal["checkpoint", "savepoint", "final"]
    unaligned: bool = False
    drained: bool = False
    triggered: float
    completed: float
    graph: dict[str, Any]
    operators: tuple[OperatorState, ...] = ()
    chains: tuple[ChainState, ...] = ()
    channels: tuple[ChannelState, ...] = ()
    sources: tuple[SourceState, ...] = ()
    sinks: tuple[SinkState, ...] = ()

    def stored_fields(self) -> dict[str, Any]:
        """Return the fields as they are stored, as JSON values."""
        return self.model_dump(mode="json", by_alias=True)

    def files(self) -> Iterator[FileRef]:
        """Yield every file of every chain, and every segment in flight; once, however many channels it is in."""
        for chain in self.chains:
            yield from chain.files
        yield from self._segments({channel.source for channel in self.channels})

    def files_of(self, chain: ChainUid) -> Iterator[FileRef]:
        """Yield the files of a chain, and the segments in flight from it and those that it reads, also to others."""
        for state in self.chains:
            if state.uid == chain:
                yield from state.files
        yield from self._segments({chain, *(channel.source for channel in self.channels if channel.target == chain)})

    def _segments(self, producers: Set[ChainUid]) -> Iterator[ChannelSegment]:
        seen: set[tuple[str, int]] = set()
        for entry in (entry for each in self.channels if each.source in producers for entry in each.entries):
            for segment in entry.segments:
                if (segment.object, segment.offset) not in seen:
                    seen.add((segment.object, segment.offset))
                    yield segment

    def objects(self) -> frozenset[str]:
        """Return the objects that the manifest refers to: what must not be deleted while it is retained."""
        return frozenset(file.object for file in self.files())

    def state_size(self) -> int:
        """Return the bytes of all files that the manifest refers to: Flink's full size."""
        return sum(file.length for file in self.files())
