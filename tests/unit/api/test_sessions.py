"""The sessions of a job's page."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
from tests.models.clocks import SettableClock

from streamjob_runtime.control.api.sessions import Access, Sessions

NOW = 1_700_000_000.0


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(NOW)


@pytest.fixture
def sessions(clock: SettableClock) -> Sessions:
    secrets: Iterator[int] = count(1)
    return Sessions(clock, lambda: f"secret-{next(secrets)}")


def test_a_code_is_exchanged_once_for_a_session_of_eight_hours(sessions: Sessions, clock: SettableClock) -> None:
    code = sessions.new_code(write=False)
    clock.now += 59

    session = sessions.exchange(code.secret)

    assert session is not None
    assert session.access == Access(write=False, expires=NOW + 59 + 8 * 3600)
    assert sessions.find(session.secret) == session.access
    assert sessions.exchange(code.secret) is None


@pytest.mark.parametrize("write", [True, False])
def test_the_code_decides_whether_its_session_may_write(sessions: Sessions, write: bool) -> None:
    session = sessions.exchange(sessions.new_code(write=write).secret)

    assert session is not None
    assert session.access.write == write


def test_a_code_lasts_a_minute(sessions: Sessions, clock: SettableClock) -> None:
    code = sessions.new_code(write=False)
    assert code.access.expires == NOW + 60
    clock.now += 60

    assert sessions.exchange(code.secret) is None


def test_a_session_ends(sessions: Sessions, clock: SettableClock) -> None:
    session = sessions.exchange(sessions.new_code(write=True).secret)
    assert session is not None
    clock.now += 8 * 3600

    assert sessions.find(session.secret) is None


def test_a_code_is_no_token_and_a_token_no_code(sessions: Sessions) -> None:
    code = sessions.new_code(write=True)
    assert sessions.find(code.secret) is None
    session = sessions.exchange(code.secret)
    assert session is not None

    assert sessions.exchange(session.secret) is None


def test_what_nobody_was_given_opens_nothing(sessions: Sessions) -> None:
    assert sessions.exchange("guess") is None
    assert sessions.find("") is None
    assert sessions.find("\udcff") is None


def test_codes_and_sessions_are_bounded_and_the_oldest_go(sessions: Sessions) -> None:
    codes = [sessions.new_code(write=False).secret for _ in range(101)]
    assert sessions.exchange(codes[0]) is None
    first = sessions.exchange(codes[1])
    assert first is not None
    for _ in range(1000):
        sessions.exchange(sessions.new_code(write=False).secret)

    assert sessions.find(first.secret) is None
