"""The job that the simulation runs, as arithmetic: its source, its state, its output, and what a batch query gives."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from pydantic import JsonValue

from streamjob.ids import CheckpointId, Epoch
from streamjob.snapshot.manifest import SinkState

Row: TypeAlias = tuple[str, int, int]
State: TypeAlias = dict[str, int]

PARTITIONS = 3


@dataclass(frozen=True)
class Source:
    """A bounded source of `size` records; the record at an offset is always the same."""

    size: int

    def key(self, offset: int) -> str:
        """Return the key of a record: half of them have one key, so that its partition changes more often."""
        return "hot" if offset % 2 else f"k{offset % 7}"

    def fold(self, state: State, start: int, end: int) -> tuple[State, list[Row]]:
        """Return the state after the records from `start` to `end`, and the resulting rows."""
        state, rows = dict(state), []
        for offset in range(start, end):
            key = self.key(offset)
            # The state returns to a former value, so that contents recur whose files were deleted meanwhile.
            state[key] = (state.get(key, 0) + offset) % 3
            rows.append((key, offset, state[key]))
        return state, rows

    def flush(self, state: State, position: int) -> list[Row]:
        """Return the rows that a flush emits after the records below a position: one total for each key."""
        return [(key, -1 - position, total) for key, total in sorted(state.items())]

    def batch_result(self, flushed_at: Iterable[int] = ()) -> list[Row]:
        """Return what the same query gives as a batch that is flushed at some offsets, and at the end."""
        _, rows = self.fold({}, 0, self.size)
        for position in {*flushed_at, self.size}:
            rows += self.flush(self.fold({}, 0, position)[0], position)
        return sorted(rows)


def partition(key: str) -> int:
    """Return the state partition that holds a key."""
    return hashlib.sha256(key.encode()).digest()[0] % PARTITIONS


def encode_state(state: State) -> dict[str, bytes]:
    """Return the state's files by path; a partition that did not change gives the same content."""
    files: dict[str, State] = {f"state/{number}": {} for number in range(PARTITIONS)}
    for key, total in sorted(state.items()):
        files[f"state/{partition(key)}"][key] = total
    return {path: json.dumps(content).encode() for path, content in files.items()}


def decode_state(files: dict[str, bytes]) -> State:
    """Return the state that files hold."""
    state: State = {}
    for content in files.values():
        state.update(json.loads(content))
    return state


def sha256(content: bytes) -> str:
    """Return the hash that names a content."""
    return hashlib.sha256(content).hexdigest()


@dataclass
class ModelSink:
    """A sink that stages by name and commits by renaming, as the file sink does; never forgets what was staged.

    A consumer may take visible files away (`consume`); they must not come again.
    """

    staged: dict[str, tuple[Epoch, tuple[Row, ...]]] = field(default_factory=dict)
    visible: dict[str, tuple[Row, ...]] = field(default_factory=dict)
    consumed: dict[str, tuple[Row, ...]] = field(default_factory=dict)
    ever_staged: dict[str, tuple[Row, ...]] = field(default_factory=dict)
    published_by: dict[str, CheckpointId] = field(default_factory=dict)

    def stage(self, name: str, epoch: Epoch, rows: tuple[Row, ...]) -> None:
        """Stage rows under an unused name."""
        assert name not in self.ever_staged, f"{name} is staged twice"
        self.staged[name] = (epoch, rows)
        self.ever_staged[name] = rows

    def commit(self, checkpoint: CheckpointId, committables: tuple[JsonValue, ...]) -> None:
        """Commit committables; one that is not staged any more was committed before."""
        for name in committables:
            assert isinstance(name, str)
            if name in self.staged:
                _, rows = self.staged.pop(name)
                assert name not in self.consumed, f"{name} is committed again after a consumer took it"
                self.visible[name] = rows
                self.published_by[name] = checkpoint

    def abort(self, epoch: Epoch) -> None:
        """Discard what earlier epochs staged."""
        self.staged = {name: entry for name, entry in self.staged.items() if entry[0] >= epoch}

    def consume(self, name: str) -> None:
        """Take a visible file away, as a consumer may."""
        self.consumed[name] = self.visible.pop(name)

    def delivered(self) -> list[Row]:
        """Return all rows that readers have seen or can see, sorted."""
        return sorted(row for rows in (*self.visible.values(), *self.consumed.values()) for row in rows)


def committables_of(sinks: tuple[SinkState, ...]) -> tuple[str, ...]:
    """Return the names in a manifest's sinks."""
    return tuple(str(name) for sink in sinks for name in sink.committables)
