"""A graph of chains as arithmetic: what each makes of its inputs, in micro-batches or all at once.

The graph's output does not depend on the order of a chain's inputs, except for the number that a sink gives to each row
of a key. A chain itself notices rows that come twice, in the wrong order or after its watermark.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from tests.simulation.model import Row
from tests.simulation.oracle import Violation

from streamjob.ids import ChainUid
from streamjob.protocol.emissions.channels import END_OF_TIME_MS

WINDOW = 4
FIRED = "!"
"""The prefix of paths of rows that windows emit."""
SOURCE = ChainUid("source")
"""The name of a chain's own source among its inputs."""


class Record(NamedTuple):
    """A row between chains; rows with the same `path` and key come in the order of their `time`, without one in any."""

    id: str
    key: int
    time: int
    path: str


class Work(IntEnum):
    """A chain's computation."""

    PASS = 0
    WINDOW = 1
    """One row for each key and window of event time, once the watermark has passed it."""
    JOIN = 2
    """Pairs of rows of its first and its other inputs with the same key and time."""


@dataclass(frozen=True)
class Node:
    """A chain of the graph: `inputs` are other chains, and SOURCE; `steps` is the number of steps of its batches.

    `feedback` are further chains that it reads, but it takes no record from them more than `laps` times. Loops have no
    event time.
    """

    uid: ChainUid
    work: Work
    inputs: tuple[ChainUid, ...]
    has_sink: bool
    steps: int = 1
    feedback: tuple[ChainUid, ...] = ()
    laps: int = 0

    @property
    def producers(self) -> tuple[ChainUid, ...]:
        """The chains that it reads."""
        return (*(each for each in self.inputs if each != SOURCE), *self.feedback)


@dataclass
class FlowState:
    """A chain's memory: snapshots contain all of it.

    `numbers` counts the rows of each key that went to the sink, `newest` has the time of the last row by path and key.
    `event_time` has the watermarks that a drained chain goes on from.
    """

    numbers: dict[str, int] = field(default_factory=dict)
    newest: dict[str, int] = field(default_factory=dict)
    windows: dict[str, list[str]] = field(default_factory=dict)
    waiting: dict[str, list[Record]] = field(default_factory=dict)
    watermarks: dict[str, int] = field(default_factory=dict)
    event_time: dict[str, int] = field(default_factory=dict)

    def copy(self) -> FlowState:
        """Return a state that changes independently."""
        return FlowState(
            dict(self.numbers),
            dict(self.newest),
            {window: list(ids) for window, ids in self.windows.items()},
            {side: list(records) for side, records in self.waiting.items()},
            dict(self.watermarks),
            dict(self.event_time),
        )

    def rewind(self) -> None:
        """Continue after a drain: waiting rows have fired, and event time returns to its value before the drain."""
        self.watermarks = dict(self.event_time)
        # The window that was open fires again, with what comes of it from here on.
        self.newest = {line: time for line, time in self.newest.items() if FIRED not in line}

    def encode(self) -> bytes:
        """Return the state as the content of a file."""
        return json.dumps(vars(self), sort_keys=True).encode()

    @staticmethod
    def decode(content: bytes) -> FlowState:
        """Return the state that a file holds."""
        parts = json.loads(content)
        parts["waiting"] = {side: [Record(*each) for each in rows] for side, rows in parts["waiting"].items()}
        return FlowState(**parts)


@dataclass
class Outcome:
    """The output of a batch for the readers of its chain, and for its sink."""

    records: list[Record]
    rows: list[Row]


def source_records(chain: ChainUid, start: int, end: int) -> list[Record]:
    """Return the records of a chain's source from an offset to below another; half of them have one key."""
    return [Record(f"{chain}{offset}", 3 if offset % 2 else offset % 3, offset, chain) for offset in range(start, end)]


def watermark_of(node: Node, state: FlowState) -> int:
    """Return up to where all inputs of a chain have come in event time."""
    return min(state.watermarks.get(each, 0) for each in node.inputs)


def process(
    node: Node, state: FlowState, reads: Mapping[ChainUid, Sequence[Record]], watermarks: Mapping[ChainUid, int]
) -> Outcome:
    """Let a chain process a batch; its state changes.

    Raises:
        Violation: a row was seen before, follows one that it should precede, or comes after the watermark.
    """
    passed = watermark_of(node, state)
    records: list[Record] = []
    for origin in (*node.inputs, *node.feedback):
        for record in reads.get(origin, ()):
            _check_order(node, state, record, passed)
            records += _take_again(node, record) if origin in node.feedback else _take(node, state, origin, record)
    for origin, watermark in watermarks.items():
        state.watermarks[origin] = max(watermark, state.watermarks.get(origin, 0))
    records += _pass_time(node, state, watermark_of(node, state))
    rows: list[Row] = []
    for record in records if node.has_sink else ():
        key = str(record.key)
        state.numbers[key] = state.numbers.get(key, 0) + 1
        rows.append((record.id, record.key, state.numbers[key]))
    return Outcome(records, rows)


def _check_order(node: Node, state: FlowState, record: Record, watermark: int) -> None:
    if record.time < watermark:
        raise Violation(f"{record.id} comes to chain {node.uid} behind watermark {watermark}")
    if record.path:
        line = f"{record.path}:{record.key}"
        if record.time <= state.newest.get(line, -1):
            raise Violation(f"{record.id} comes to chain {node.uid} behind time {state.newest[line]} of its key")
        state.newest[line] = record.time


def _take_again(node: Node, record: Record) -> Iterable[Record]:
    """Take what has gone round, unless it has so often enough."""
    mark = f"{node.uid}~"
    if record.id.count(mark) == node.laps:
        return ()
    return (record._replace(id=f"{mark}({record.id})", path=record.path and record.path + mark),)


def _take(node: Node, state: FlowState, origin: ChainUid, record: Record) -> Iterable[Record]:
    match node.work:
        case Work.PASS:
            path = record.path and record.path + node.uid
            return (record._replace(id=f"{node.uid}({record.id})", path=path),)
        case Work.WINDOW:
            state.windows.setdefault(f"{record.time // WINDOW:04} {record.key}", []).append(record.id)
            return ()
        case Work.JOIN:
            is_first = origin == node.inputs[0]
            mine, others = ("first", "others") if is_first else ("others", "first")
            state.waiting.setdefault(mine, []).append(record)
            matches = [
                each for each in state.waiting.get(others, ()) if (each.key, each.time) == (record.key, record.time)
            ]
            pairs = [(record.id, each.id) if is_first else (each.id, record.id) for each in matches]
            return [Record(f"{node.uid}({left}&{right})", record.key, record.time, "") for left, right in pairs]


def _pass_time(node: Node, state: FlowState, watermark: int) -> list[Record]:
    state.waiting = {
        side: [each for each in records if each.time >= watermark] for side, records in state.waiting.items()
    }
    due = [name for name in sorted(state.windows) if (int(name[:4]) + 1) * WINDOW <= watermark]
    records = []
    for name in due:
        number, key = name.split(" ")
        ids = sorted(state.windows.pop(name))
        digest = hashlib.sha256(" ".join(ids).encode()).hexdigest()[:8]
        time = (int(number) + 1) * WINDOW - 1
        records.append(Record(f"{node.uid}[{int(number)} {key} {len(ids)} {digest}]", int(key), time, node.uid + FIRED))
    return records


def run_to_the_end(
    nodes: Sequence[Node],
    states: Mapping[ChainUid, FlowState],
    pending: Mapping[tuple[ChainUid, ChainUid], Sequence[Record]],
) -> dict[ChainUid, list[Row]]:
    """Return the sinks' content if all inputs end after the pending rows; the states change.

    Args:
        nodes: the graph, producers before their readers.
        states: of all chains.
        pending: what a chain has still to read of each of its inputs.
    """
    waiting = {channel: list(records) for channel, records in pending.items()}
    rows: dict[ChainUid, list[Row]] = {node.uid: [] for node in nodes}
    for group in in_groups(tuple(nodes)):
        looped = is_loop(group)
        again = True
        while again:
            for node in group:
                reads = {each: waiting.pop((each, node.uid), []) for each in (*node.inputs, *node.feedback)}
                ends = {} if looped else dict.fromkeys(node.inputs, END_OF_TIME_MS)
                outcome = process(node, states[node.uid], reads, ends)
                rows[node.uid] += outcome.rows
                for reader in nodes:
                    if node.uid in reader.producers:
                        waiting.setdefault((node.uid, reader.uid), []).extend(outcome.records)
            again = looped and any(waiting.get((each, node.uid)) for node in group for each in node.producers)
    return rows


def in_groups(nodes: Sequence[Node]) -> list[tuple[Node, ...]]:
    """Return the loops of a graph, and each other chain alone, after everything that they read."""
    before: dict[ChainUid, set[ChainUid]] = {node.uid: set(node.producers) for node in nodes}
    for _ in nodes:
        for producers in before.values():
            producers |= {further for each in tuple(producers) for further in before[each]}
    groups = {
        frozenset(each.uid for each in nodes if each.uid in before[node.uid] and node.uid in before[each.uid])
        or frozenset([node.uid])
        for node in nodes
    }
    ordered = sorted(groups, key=lambda group: len(set().union(*(before[each] for each in group)) | group))
    return [tuple(node for node in nodes if node.uid in group) for group in ordered]


def is_loop(group: Sequence[Node]) -> bool:
    """Return whether a group of `in_groups` is a loop."""
    return any(node.feedback for node in group)


def batch_result(
    nodes: Sequence[Node], limits: Mapping[ChainUid, int], drains: Iterable[Mapping[ChainUid, int]] = ()
) -> dict[ChainUid, list[Row]]:
    """Return what the sinks get if the sources end at these offsets.

    Args:
        nodes: the graph, producers before their readers.
        limits: where each chain's source ends.
        drains: how far the sources were read when they were drained before, each time.
    """
    states = {node.uid: FlowState() for node in nodes}
    rows: dict[ChainUid, list[Row]] = {node.uid: [] for node in nodes}
    at = dict.fromkeys(limits, 0)
    for until in (*drains, limits):
        pending = {(SOURCE, chain): source_records(chain, at[chain], until[chain]) for chain in limits}
        for chain, more in run_to_the_end(nodes, states, pending).items():
            rows[chain] += more
            states[chain].rewind()
        at = dict(until)
    return rows


def encode(records: Sequence[Record]) -> bytes:
    """Return the content of a segment."""
    return json.dumps(records).encode()


def decode(content: bytes) -> list[Record]:
    """Return the records of a segment."""
    return [Record(*each) for each in json.loads(content)]
