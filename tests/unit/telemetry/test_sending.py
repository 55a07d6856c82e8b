"""Tests of what sends in threads of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

import pytest

from streamjob.telemetry.sending import Outbox, Repeated

WITHIN = 30.0


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


def test_what_is_put_is_sent_before_the_end() -> None:
    sent: list[int] = []

    outbox = Outbox("numbers", sent.extend)
    outbox.put([1, 2])
    outbox.put([3])
    outbox.close(WITHIN)

    assert sent == [1, 2, 3]


def test_a_receiver_that_hangs_holds_nobody_up_and_what_does_not_fit_is_dropped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hanging, end = threading.Event(), threading.Event()
    sent: list[int] = []

    def send(items: Sequence[int]) -> None:
        hanging.set()
        assert end.wait(WITHIN)
        sent.extend(items)

    outbox = Outbox("numbers", send, capacity=2, linger=0.0)
    outbox.put([0])
    assert hanging.wait(WITHIN)
    outbox.put([1, 2, 3])
    outbox.put([4, 5])

    assert len(warnings(caplog)) == 1
    end.set()
    outbox.close(WITHIN)
    assert sent == [0, 1, 2]


def test_a_receiver_that_fails_is_named_in_the_log_once(caplog: pytest.LogCaptureFixture) -> None:
    tried = threading.Semaphore(0)

    def send(items: Sequence[int]) -> None:
        tried.release()
        raise OSError("connection refused")

    outbox = Outbox("numbers", send, linger=0.0)
    for number in range(3):
        outbox.put([number])
        assert tried.acquire(timeout=WITHIN)
    outbox.close(WITHIN)

    (warning,) = warnings(caplog)
    assert "connection refused" in warning


def test_repeated_sending_survives_failures_and_says_when_they_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "streamjob")
    answers = iter([OSError("away"), OSError("away"), None, None])
    done = threading.Event()

    def call() -> None:
        answer = next(answers, None)
        if answer is not None:
            raise answer
        done.set()

    repeated = Repeated("metrics", call, 0.001)
    assert done.wait(WITHIN)
    repeated.close(WITHIN)

    assert [each.levelname for each in caplog.records] == ["WARNING", "INFO"]


def test_repeated_sending_sends_once_more_at_the_end() -> None:
    calls: list[None] = []

    repeated = Repeated("metrics", lambda: calls.append(None), 3600.0)
    repeated.close(WITHIN)

    assert len(calls) == 1
