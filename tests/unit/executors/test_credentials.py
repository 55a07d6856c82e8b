"""A driver and its executors prove to each other that they know the secret."""

from __future__ import annotations

import pytest

from streamjob_runtime.executors.credentials import SECRET_VARIABLE, Counts, Credentials, NoSecret, secret_of

SECRET = "0123456789abcdef0123456789abcdef"


def test_the_same_secret_and_attempt_give_the_same_keys() -> None:
    assert Credentials.derive(SECRET, "a") == Credentials.derive(SECRET, "a")


def test_another_attempt_has_other_keys() -> None:
    first, second = Credentials.derive(SECRET, "a"), Credentials.derive(SECRET, "b")

    assert first.key != second.key
    assert first.spark_secret != second.spark_secret


def test_no_key_contains_the_secret_or_the_other_key() -> None:
    keys = Credentials.derive(SECRET, "a")

    assert SECRET not in (keys.key.hex(), keys.spark_secret)
    assert keys.key.hex() != keys.spark_secret


def test_a_signature_proves_its_own_message_only() -> None:
    keys = Credentials.derive(SECRET, "a")
    signature = keys.sign(b"poll", b"{}")

    assert keys.proves(signature, b"poll", b"{}")
    assert not keys.proves(signature, b"poll", b"{ }")
    assert not keys.proves(signature, b"pol", b"l{}")
    assert not Credentials.derive(SECRET, "b").proves(signature, b"poll", b"{}")
    assert not keys.proves("é", b"poll", b"{}")


def test_a_count_is_accepted_once_and_may_come_late() -> None:
    counts = Counts()

    assert [counts.accept(each) for each in (1, 3, 2, 3, 1)] == [True, True, True, False, False]


def test_a_count_that_comes_very_late_is_refused() -> None:
    counts = Counts()
    assert counts.accept(5000)

    assert not counts.accept(2)
    assert counts.accept(4999)


@pytest.mark.parametrize("environment", [{}, {SECRET_VARIABLE: "short"}])
def test_a_missing_or_short_secret_is_refused(environment: dict[str, str]) -> None:
    with pytest.raises(NoSecret, match=SECRET_VARIABLE):
        secret_of(environment)
