"""Which connections stay where there are too many, and how fast new ones are taken."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamjob_runtime.control.api.admission import Admission, Limits, Pace

LIMITS = Limits(connections=4, strangers_of_a_peer=3)


def test_the_oldest_stranger_of_a_peer_goes_when_it_has_too_many() -> None:
    admission: Admission[int] = Admission(LIMITS)

    assert [admission.admit(each, "a") for each in (1, 2, 3, 4)] == [None, None, None, 1]


def test_the_peer_with_the_most_strangers_makes_room() -> None:
    admission: Admission[int] = Admission(LIMITS)
    for each, peer in ((1, "a"), (2, "b"), (3, "b"), (4, "c")):
        admission.admit(each, peer)

    assert admission.admit(5, "d") == 2


def test_a_connection_with_the_token_is_not_closed_for_a_stranger() -> None:
    admission: Admission[int] = Admission(LIMITS)
    for each in (1, 2, 3, 4):
        admission.admit(each, "a")
        admission.trust(each)

    assert admission.admit(5, "b") == 5


@given(st.lists(st.tuples(st.sampled_from(["come", "trust", "leave"]), st.integers(0, 9), st.sampled_from("abc"))))
def test_there_are_never_more_connections_than_the_limits_say(steps: list[tuple[str, int, str]]) -> None:
    admission: Admission[tuple[int, int]] = Admission(LIMITS)
    there: dict[tuple[int, int], str] = {}
    trusted: set[tuple[int, int]] = set()
    for number, (step, which, peer) in enumerate(steps):
        chosen = list(there)[which % len(there)] if there else None
        if step == "come":
            there[number, which] = peer
            excess = admission.admit((number, which), peer)
            if excess is not None:
                assert excess not in trusted
                admission.leave(excess)
                del there[excess]
        elif chosen is not None and step == "trust":
            admission.trust(chosen)
            trusted.add(chosen)
        elif chosen is not None:
            admission.leave(chosen)
            del there[chosen]
            trusted.discard(chosen)
        assert len(there) <= LIMITS.connections
        for each in "abc":
            strangers = [key for key, owner in there.items() if owner == each and key not in trusted]
            assert len(strangers) <= LIMITS.strangers_of_a_peer
        assert all(admission.is_trusted(each) == (each in trusted) for each in there)


def test_connections_are_taken_at_the_pace_behind_a_burst() -> None:
    pace = Pace(per_second=10, burst=3)
    now, taken = 100.0, []
    for _ in range(23):
        taken.append(now)
        now += pace.take(now)

    assert taken[:4] == [100.0] * 4
    assert 1.8 <= taken[-1] - 100.0 <= 2.1
    assert pace.take(now + 60) == 0
