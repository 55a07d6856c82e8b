"""A code gives a token once, within a minute."""

from __future__ import annotations

from streamjob_operator.web.codes import CODE_SECONDS, Codes


class Time:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def codes(time: Time) -> Codes:
    return Codes(time, iter(f"code-{number}" for number in range(1000)).__next__)


def test_a_code_works_once() -> None:
    found = codes(Time())
    code, expires = found.put("a-token")

    assert expires == 1000.0 + CODE_SECONDS
    assert (found.take(code), found.take(code)) == ("a-token", None)
    assert found.take("unknown") is None


def test_a_code_works_for_a_minute() -> None:
    time = Time()
    found = codes(time)
    code, _ = found.put("a-token")
    time.now += CODE_SECONDS

    assert found.take(code) is None


def test_the_oldest_of_too_many_codes_goes() -> None:
    found = codes(Time())
    given = [found.put(f"token {number}")[0] for number in range(101)]

    assert found.take(given[0]) is None
    assert found.take(given[1]) == "token 1"
