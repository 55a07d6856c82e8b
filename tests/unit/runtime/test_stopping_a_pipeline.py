"""A signal that also ended the reader of the job's output."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest

from streamjob_runtime.process.signals import Stopper


class Left(BaseException):
    pass


def nobody_reads(*_: Any) -> None:
    raise BrokenPipeError


@pytest.fixture
def asked() -> list[str]:
    return []


@pytest.fixture
def stopper(asked: list[str]) -> Stopper:
    view = SimpleNamespace(message=nobody_reads, close=lambda: None)
    return Stopper(cast("Any", SimpleNamespace(stop_now=asked.append)), cast("Any", view), grace=30.0)


def test_the_job_stops_though_nobody_can_be_told(stopper: Stopper, asked: list[str]) -> None:
    with pytest.raises(BrokenPipeError):
        stopper._ask("SIGINT")

    assert asked == [f"signal-{os.getpid()}"]


def test_the_process_leaves_at_the_end_of_the_grace_though_nobody_can_be_told(
    stopper: Stopper, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes: list[int] = []

    def leave(code: int) -> None:
        codes.append(code)
        raise Left

    monkeypatch.setattr(os, "_exit", leave)
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(write=nobody_reads))

    with pytest.raises(Left):
        stopper._leave()

    assert codes == [0]
