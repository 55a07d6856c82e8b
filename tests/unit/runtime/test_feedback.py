"""Feedback has room on the disk up to a quota, and is kept for checkpoints."""

from __future__ import annotations

from typing import Any, cast

import pytest
from tests.unit.runtime.test_full_channels import FakeStream

from streamjob.ids import BatchId, ChainUid, CheckpointId, OperatorUid
from streamjob.job.model.spec import ChannelPolicy
from streamjob.job.planning.plan import ChannelPlan
from streamjob.protocol.emissions.channels import Backlog, Segment
from streamjob.protocol.emissions.cuts import Batch, ChainCut, Emissions, Output
from streamjob_runtime.chain.channels.in_flight import names_in_flight
from streamjob_runtime.chain.emissions.emission_lock import EmissionLock, LoopTooFull
from streamjob_runtime.control.views import channel_view
from streamjob_runtime.monitoring.chain_meter import ChainFigures

A, B = ChainUid("a"), ChainUid("b")


class Loop:
    """Chain a, followed by b, which reads its own stream."""

    def __init__(self, **policy: Any) -> None:
        emissions = Emissions([A, B], [(A, B), (B, B)], feedback=[(B, B)])
        self.emission = EmissionLock(emissions, ChannelPolicy(**policy))
        self.stream = FakeStream()
        self.emission.open_channels(cast("Any", {A: FakeStream(), B: self.stream}))
        self.cuts: dict[ChainUid, ChainCut] = {}
        self.emission.on_cut = lambda _, cut: self.cuts.update({cut.chain: cut})

    def emit(self, chain: ChainUid, name: str = "", **consumed: int) -> None:
        batch = BatchId(self.emission.last_emitted(chain) + 1)
        segments = (Segment(name=name, records=1, length=10),) if name else ()
        positions = {ChainUid(producer): at for producer, at in consumed.items()}
        self.emission.emit(chain, Batch(batch=batch, consumed=positions, output=Output(segments=segments)))
        self.emission.committed(chain, batch)


def test_a_loop_that_needs_more_room_than_its_quota_fails_and_names_the_setting() -> None:
    loop = Loop(feedback_bytes=25)
    loop.emit(B, "x")
    loop.emit(B, "y")

    with pytest.raises(LoopTooFull) as caught:
        loop.emit(B, "z")

    assert str(caught.value) == (
        "The loop of b has 30 bytes on their way back from chain 'b', and channels.feedbackBytes allows 25\n"
        "  fix: let fewer rows go round, such as only those that change something, or raise channels.feedbackBytes"
    )


def test_what_has_been_read_needs_no_room() -> None:
    loop = Loop(feedback_bytes=20)
    for number in range(5):
        loop.emit(B, f"x{number}", b=number)
    assert loop.stream.dropped == 4


def test_nobody_waits_for_a_loop_to_read_what_comes_back() -> None:
    loop = Loop(capacity_bytes=10)
    loop.emit(B, "x")
    loop.emit(B, "y")
    loop.emission.wait_for_room(B, lambda: pytest.fail("it waits"))


def test_what_goes_round_is_kept_until_the_chain_that_wrote_it_has_hold_of_it() -> None:
    loop = Loop()
    loop.emit(B, "x")
    loop.emission.trigger(CheckpointId(1), seal=False, unaligned=True)
    loop.emit(B, b=1)
    assert names_in_flight(loop.cuts[B]) == {A: (), B: ("x",)}
    assert loop.stream.dropped == 0

    loop.emission.unpin(CheckpointId(1), B)
    assert loop.stream.dropped == 1


def test_what_goes_round_is_shown_as_a_share_of_the_quota() -> None:
    channel = ChannelPlan(B, B, "b", OperatorUid("b"), "it is fed back", feedback=True)
    policy = ChannelPolicy(capacity_bytes=10, capacity_records=1, feedback_bytes=400)
    shown = channel_view(channel, Backlog(records=7, bytes=100), policy, writer=ChainFigures(), reader=ChainFigures())

    assert (shown.feedback, shown.capacity_records, shown.capacity_bytes, shown.fill) == (True, None, 400, 0.25)
