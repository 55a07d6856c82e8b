"""The manifest: the complete content of one checkpoint or savepoint."""

from __future__ import annotations

from collections.abc import Iterator, Set
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel

from streamjob.ids import BatchId, ChainUid, CheckpointId, Epoch, OperatorUid
from streamjob.snapshot.format_versions import FORMAT_VERSION, FormatVersion
from streamjob.snapshot.state_form import StateForm


class Part(BaseModel):
    """Base of the manifest's parts: immutable, camelCase in JSON.

    Defaults serve version 1 and code that creates manifests. In version 2 every field is stored; a missing or unknown
    field is an error (`protocol.manifests.decoding`).
    """

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, extra="ignore")


class FileRef(Part):
    """A file of a chain's Spark checkpoint, or a piece of one, and the object that stores its bytes.

    `path` is relative to the chain's checkpoint directory. `object` is a key relative to the job's root or an absolute
    URI. The bytes are the `length` bytes from `offset`, because several small files share an object, and `sha256` is
    their hash. A file that grows by appending may have several entries with the same path, one for each piece; `at` is
    the offset of the piece in the file.
    """

    path: str
    object: str
    offset: int = 0
    length: int
    sha256: str
    at: int = Field(default=0, exclude_if=lambda at: at == 0)


class OperatorState(Part):
    """The chain in which an operator ran, and whether its work is finished for good."""

    uid: OperatorUid
    chain: ChainUid
    finished: bool = False


class InputState(Part):
    """One input of a chain at the cut, with its watermark in ms since 1970; Spark stores only the smallest one.

    `partitions` has the watermarks of the partitions of a Kafka source by topic and number, in ms since 1970; older
    versions did not write it.
    """

    uid: OperatorUid
    watermark_ms: int | None = None
    ended: bool = False
    partitions: dict[str, dict[str, int]] = Field(default_factory=dict, exclude_if=lambda partitions: not partitions)


class ChainState(Part):
    """A chain after an emitted and committed batch; `batch` is -1 if it had not run any.

    `stateful` maps Spark's numbers of the stateful operators to Spark's names for them. `forms` lists, in the same
    order, how they keep their state; older versions did not write it.
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
    """A file of complete in-flight records; `path` ends with its name in the producer's stream."""

    records: int


class ChannelEntry(Part):
    """An entry in flight: data segments and the watermark after them (ms since 1970), a barrier, or the end."""

    index: int
    kind: EntryKind
    watermark: int | None = None
    barrier: CheckpointId | None = None
    segments: tuple[ChannelSegment, ...] = ()


class ChannelState(Part):
    """In-flight data of a channel: entries that the producer's cut emitted and the consumer's has not consumed.

    `consumed` is the index of the entry that the consumer reads next, and `next` that of the entry that the producer
    appends next; `entries` are those in between. `ended` means that the producer appends no more.
    """

    source: ChainUid
    target: ChainUid
    consumed: int = 0
    next: int = 0
    ended: bool = False
    entries: tuple[ChannelEntry, ...] = ()

    model_config = ConfigDict(alias_generator=lambda name: {"source": "from", "target": "to"}.get(name, name))


class SourceState(Part):
    """A source's position, and the end of a bounded source, which is fixed at the first start.

    `ids` has the ids of what the position belongs to, by name, where the system gives ids: of Kafka's topics. It is
    absent if there are none; older versions did not write it.
    """

    uid: OperatorUid
    position: JsonValue = None
    end: JsonValue = None
    ids: dict[str, str] = Field(default_factory=dict, exclude_if=lambda ids: not ids)


class SinkState(Part):
    """A sink's committables since the last completed checkpoint; committed once the log names this manifest.

    `target` is the id of what the sink writes to, where that has one: of a table or a topic. It is absent otherwise;
    older versions did not write it. `journal` is the id of its journal, if it publishes each batch.
    """

    uid: OperatorUid
    committables: tuple[JsonValue, ...] = ()
    target: str | None = Field(default=None, exclude_if=lambda target: target is None)
    journal: str | None = Field(default=None, exclude_if=lambda journal: journal is None)


class Manifest(Part):
    """A checkpoint or savepoint: complete and immutable. It counts only if a record of the log names it.

    `triggered` and `completed` are seconds since 1970. `graph` is the job's graph (names, formats, options without
    secrets): a restore is checked against it, and sinks can be built from the snapshot alone.
    """

    format_version: FormatVersion = FORMAT_VERSION
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
        """Return the stored fields as JSON values."""
        return self.model_dump(mode="json", by_alias=True)

    def files(self) -> Iterator[FileRef]:
        """Yield each file of every chain and each segment in flight once, even if several channels share it."""
        for chain in self.chains:
            yield from chain.files
        yield from self._segments({channel.source for channel in self.channels})

    def files_of(self, chain: ChainUid) -> Iterator[FileRef]:
        """Yield a chain's files, its segments in flight, and those that it reads, also if others read them, too."""
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
        """Return the objects that the manifest refers to: they must not be deleted while it is retained."""
        return frozenset(file.object for file in self.files())

    def state_size(self) -> int:
        """Return the total bytes of all files that the manifest refers to: Flink's full checkpoint size."""
        return sum(file.length for file in self.files())
