"""A chain leaves idle inputs out of its watermark, and idleness goes on through channels."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from streamjob.ids import BatchId, ChainUid, OperatorUid
from streamjob.protocol.emissions.channels import END_OF_TIME_MS, Segment
from streamjob.protocol.emissions.cuts import Batch, Emissions, Output
from streamjob_runtime.chain.dataflow import Dataflow
from streamjob_runtime.chain.emissions.emission_lock import EmissionLock
from streamjob_runtime.chain.event_time.watermarks import InputWatermarks
from streamjob_runtime.chain.idle_inputs import IdleChains, IdleInputs

FIRST, OTHER, READER = ChainUid("first"), ChainUid("other"), ChainUid("reader")
QUERY: Any = object()


class Watermarks:
    """The watermarks of a query's inputs."""

    def __init__(self) -> None:
        self.now: dict[OperatorUid, int] = {}

    def read(self, query: object) -> Mapping[OperatorUid, int]:
        return self.now

    preview = read

    def advance(self, query: object, watermarks: Mapping[OperatorUid, int]) -> None:
        self.now.update(watermarks)

    advance_waiting = advance


class World:
    """Two chains with a source each, and a chain that reads both; only the first source may be idle."""

    def __init__(self) -> None:
        self.time = 0.0
        channels = [(FIRST, READER), (OTHER, READER)]
        self.emission = EmissionLock(Emissions([FIRST, OTHER, READER], channels))
        stream = SimpleNamespace(extend=lambda *_: None, serve=lambda *_: None, drop=lambda *_: None)
        self.emission.open_channels(cast("Any", {FIRST: stream, OTHER: stream}))
        self.idle = IdleChains(self.emission, possible=True)
        self.watermarks = {chain: Watermarks() for chain in (FIRST, OTHER, READER)}
        self.chains = {
            FIRST: self._chain(FIRST, idle_timeouts={OperatorUid("first"): 30.0}),
            OTHER: self._chain(OTHER),
            READER: self._chain(READER, channels={OperatorUid("first"): FIRST, OperatorUid("other"): OTHER}),
        }
        self.watermarks[READER].now = {OperatorUid("first"): 10, OperatorUid("other"): 50}
        self.look()

    def _chain(self, uid: ChainUid, **fields: Any) -> IdleInputs:
        uids = tuple(fields.get("channels", (OperatorUid(uid),)))
        query: Any = None
        dataflow = Dataflow(query, "append", uids, (), dict.fromkeys(uids, "node"), {}, **fields)
        watermarks = cast("InputWatermarks", self.watermarks[uid])
        return IdleInputs(uid, dataflow, watermarks, self.idle, lambda: self.time)

    def look(self) -> Mapping[OperatorUid, int]:
        """Let each chain look for idle inputs; return the reader's watermarks."""
        for chain in self.chains.values():
            chain.pass_between_batches(QUERY)
        return self.watermarks[READER].now


@pytest.fixture
def world() -> World:
    return World()


def test_a_channel_is_left_out_of_the_watermark_if_the_chain_before_it_is_idle(world: World) -> None:
    world.time = 29
    assert world.look() == {"first": 10, "other": 50}
    world.time = 30

    assert world.look() == {"first": 50, "other": 50}
    assert world.chains[READER].idle == {"first"}


def test_rows_in_the_channel_are_read_before_it_is_left_out(world: World) -> None:
    segment = Segment(name="rows", records=3, length=100)
    world.emission.emit(FIRST, Batch(batch=BatchId(0), output=Output(segments=(segment,), watermark_ms=20)))
    world.time = 40
    assert world.look() == {"first": 10, "other": 50}
    world.emission.emit(READER, Batch(batch=BatchId(0), consumed={FIRST: 1, OTHER: 0}))

    assert world.look() == {"first": 50, "other": 50}


def test_a_chain_that_runs_a_batch_is_not_idle_for_its_readers(world: World) -> None:
    world.emission.begin(FIRST, BatchId(0))
    world.time = 40

    assert world.look() == {"first": 10, "other": 50}


def test_a_batch_with_rows_ends_the_idleness(world: World) -> None:
    world.time = 40
    world.look()
    world.chains[FIRST].pass_in_batch(QUERY, [OperatorUid("first")], world.time)
    world.watermarks[READER].now[OperatorUid("other")] = 80

    assert world.chains[FIRST].idle == frozenset()
    assert world.look() == {"first": 50, "other": 80}


def test_a_reader_whose_other_input_has_ended_does_not_come_to_its_end_by_idleness(world: World) -> None:
    world.emission.end(OTHER)
    world.watermarks[READER].now[OperatorUid("other")] = END_OF_TIME_MS
    world.time = 40

    assert world.look() == {"first": 10, "other": END_OF_TIME_MS}
