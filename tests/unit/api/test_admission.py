"""Which connections stay where there are too many, and how fast new ones are taken."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamjob_runtime.control.api.admission import Limits, next_turn, surplus

LIMITS = Limits(connections=4, strangers_of_a_peer=3)


def test_the_oldest_stranger_of_a_peer_goes_when_it_has_too_many() -> None:
    strangers = dict.fromkeys((1, 2, 3), "a")

    assert surplus(strangers, "a", 3, LIMITS) is None
    assert surplus({**strangers, 4: "a"}, "a", 4, LIMITS) == 1


def test_the_peer_with_the_most_strangers_makes_room() -> None:
    strangers = {1: "a", 2: "b", 3: "b", 4: "c", 5: "d"}

    assert surplus(strangers, "d", 5, LIMITS) == 2


def test_a_connection_with_the_token_is_not_closed_for_a_stranger() -> None:
    assert surplus({5: "b"}, "b", 5, LIMITS) == 5


@given(st.lists(st.tuples(st.sampled_from(["come", "trust", "leave"]), st.integers(0, 9), st.sampled_from("abc"))))
def test_there_are_never_more_connections_than_the_limits_say(steps: list[tuple[str, int, str]]) -> None:
    strangers: dict[tuple[int, int], str] = {}
    there: list[tuple[int, int]] = []
    for number, (step, which, peer) in enumerate(steps):
        if step == "come":
            there.append((number, which))
            strangers[number, which] = peer
            excess = surplus(strangers, peer, len(there), LIMITS)
            if excess is not None:
                del strangers[excess]
                there.remove(excess)
        elif there:
            chosen = there[which % len(there)]
            strangers.pop(chosen, None)
            if step == "leave":
                there.remove(chosen)
        assert len(there) <= LIMITS.connections
        for each in "abc":
            assert list(strangers.values()).count(each) <= LIMITS.strangers_of_a_peer


def test_connections_are_taken_at_the_pace_behind_a_burst() -> None:
    limits = Limits(per_second=10, burst=3)
    now, turn, taken = 100.0, float("-inf"), []
    for _ in range(23):
        taken.append(now)
        turn = next_turn(turn, now, limits)
        now = max(now, turn)

    assert taken[:4] == [100.0] * 4
    assert 1.8 <= taken[-1] - 100.0 <= 2.1
    assert next_turn(turn, now + 60, limits) <= now + 60
