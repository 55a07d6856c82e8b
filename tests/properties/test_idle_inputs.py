"""Idle inputs are left out of the watermark, which never goes back, whatever comes, and wherever a job is restored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from streamjob.ids import OperatorUid
from streamjob.protocol.emissions.channels import END_OF_TIME_MS
from streamjob.protocol.event_time.idleness import Silence, past_idle_inputs

A, B, C = INPUTS = tuple(map(OperatorUid, "abc"))
TIMEOUTS = {A: 30.0, B: 5.0}
"""The third input never becomes idle."""


@dataclass(frozen=True)
class Batch:
    """A batch: seconds since the one before, and the latest event time of each input with rows."""

    after: int
    rows: Mapping[OperatorUid, int]


@dataclass(frozen=True)
class Look:
    """A look between two batches that finds no rows, some seconds later."""

    after: int


@dataclass(frozen=True)
class Cut:
    """A checkpoint."""


@dataclass(frozen=True)
class Restore:
    """A restore from the last checkpoint, some seconds later."""

    after: int


Event = Batch | Look | Cut | Restore
SECONDS = st.integers(0, 40)
EVENTS = st.lists(
    st.builds(Batch, SECONDS, st.dictionaries(st.sampled_from(INPUTS), st.integers(1, 100), max_size=3))
    | st.builds(Look, SECONDS)
    | st.just(Cut())
    | st.builds(Restore, SECONDS),
    max_size=40,
)


class Query:
    """A query as Spark keeps its watermarks: one for each input, and their smallest, which never goes back."""

    def __init__(self, now: float, watermark: int, inputs: Mapping[OperatorUid, int]) -> None:
        self.watermark = watermark
        self.inputs = dict(inputs)
        self._silence = Silence(TIMEOUTS)
        self._silence.listen((), now)

    def pass_batch(self, rows: Mapping[OperatorUid, int], now: float) -> frozenset[OperatorUid]:
        for uid, time in rows.items():
            self.inputs[uid] = max(time, self.inputs.get(uid, 0))
        idle = self._silence.listen(rows, now)
        self.inputs.update(past_idle_inputs(INPUTS, self.inputs, idle))
        self.watermark = max(self.watermark, min(self.inputs.get(uid, 0) for uid in INPUTS))
        return idle


class Reference:
    """The definition: the smallest watermark of the inputs that are not idle; it stands while all are idle."""

    def __init__(self, now: float) -> None:
        self.watermark = 0
        self.own: dict[OperatorUid, int] = {}
        self.heard = dict.fromkeys(INPUTS, now)

    def pass_batch(self, rows: Mapping[OperatorUid, int], now: float) -> frozenset[OperatorUid]:
        for uid, time in rows.items():
            self.own[uid] = max(time, self.own.get(uid, 0))
            self.heard[uid] = now
        idle = frozenset(uid for uid, timeout in TIMEOUTS.items() if now - self.heard[uid] >= timeout)
        self.watermark = max(self.watermark, min(self.own.get(uid, 0) for uid in INPUTS if uid not in idle))
        return idle

    def copy(self, now: float) -> Reference:
        made = Reference(now)
        made.watermark, made.own = self.watermark, dict(self.own)
        return made


@given(EVENTS)
def test_the_watermark_is_the_smallest_of_the_inputs_that_are_not_idle_across_restores(events: Iterable[Event]) -> None:
    now = 0.0
    query, reference = Query(now, 0, {}), Reference(now)
    kept: tuple[int, Mapping[OperatorUid, int], Reference] = (0, {}, Reference(now))
    reached = 0
    for event in events:
        match event:
            case Batch(after, rows):
                now += after
                assert query.pass_batch(rows, now) == reference.pass_batch(rows, now)
            case Look(after):
                now += after
                assert query.pass_batch({}, now) == reference.pass_batch({}, now)
            case Cut():
                kept = query.watermark, dict(query.inputs), reference.copy(now)
            case Restore(after):
                now += after
                query, reference = Query(now, *kept[:2]), kept[2].copy(now)
                reached = kept[0]
        assert query.watermark == reference.watermark
        assert query.watermark >= reached
        assert all(
            watermark <= query.watermark for uid, watermark in query.inputs.items() if watermark > own(reference, uid)
        )
        reached = query.watermark


def own(reference: Reference, uid: OperatorUid) -> int:
    return reference.own.get(uid, 0)


def test_the_watermark_stands_while_all_inputs_are_idle() -> None:
    assert past_idle_inputs([A, B], {A: 10, B: 20}, {A, B}) == {}


def test_the_watermark_stands_while_another_input_has_none() -> None:
    assert past_idle_inputs([A, B, C], {A: 10, B: 20}, {A}) == {}


def test_an_idle_input_does_not_come_to_its_end_because_the_others_have() -> None:
    assert past_idle_inputs([A, B], {A: 10, B: END_OF_TIME_MS}, {A}) == {}


def test_an_idle_input_without_a_watermark_gets_that_of_the_others() -> None:
    assert past_idle_inputs([A, B], {B: 20}, {A}) == {A: 20}


def test_an_idle_input_that_is_ahead_stays_ahead() -> None:
    assert past_idle_inputs([A, B], {A: 30, B: 20}, {A}) == {}


def test_an_input_is_idle_once_its_silence_has_lasted_and_not_any_more_when_it_has_rows() -> None:
    silence = Silence({A: 30.0})

    assert [
        silence.listen(rows, now) for rows, now in [((), 0.0), ((), 29.9), ((), 30.0), ([A], 31.0), ((), 60.9)]
    ] == [
        frozenset(),
        frozenset(),
        {A},
        frozenset(),
        frozenset(),
    ]
