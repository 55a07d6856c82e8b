"""Profiles of a job: one at a time, and the latest are remembered."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from streamjob.client.profile_models import ProfileState
from streamjob.ids import TriggerId
from streamjob_runtime.control.api.refusals import StateConflict
from streamjob_runtime.control.profiles import Language, Profiles, Recorder
from streamjob_runtime.profiling.stacks import Stacks

STACKS: Stacks = {("main", "run"): 12.0}
ONE, TWO = TriggerId("one"), TriggerId("two")


def recorder(record: Callable[[float], dict[Language, Stacks]], process: str = "driver") -> Recorder:
    return Recorder(process, ("java",), record)


def works(seconds: float) -> dict[Language, Stacks]:
    return {"java": STACKS}


def fails(seconds: float) -> dict[Language, Stacks]:
    raise RuntimeError("Java is gone")


def ended(profiles: Profiles, profile: TriggerId) -> ProfileState:
    """Wait for a profile, and return its state."""
    deadline = time.monotonic() + 30
    while True:
        view = profiles.get(profile)
        assert view is not None
        if view.state is not ProfileState.RECORDING:
            return view.state
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_one_profile_is_recorded_at_a_time_and_a_repeated_request_is_the_same_one() -> None:
    release = threading.Event()

    def waits(seconds: float) -> dict[Language, Stacks]:
        release.wait(30)
        return {"java": STACKS}

    calls: list[str] = []
    profiles = Profiles(lambda: 5.0, lambda: [recorder(waits)], lambda sentence, profile: calls.append(sentence))
    profiles.start(ONE, 30.0)
    profiles.start(ONE, 30.0)
    with pytest.raises(StateConflict, match="The profile one is being recorded"):
        profiles.start(TWO, 30.0)
    release.set()

    assert ended(profiles, ONE) is ProfileState.COMPLETED
    profiles.start(ONE, 30.0)
    view = profiles.get(ONE)
    assert view is not None
    assert view.state is ProfileState.COMPLETED
    assert view.processes[0].cpu_ms == 12.0
    assert profiles.get(TWO) is None
    assert calls == ["a profile of 30 seconds was requested", "the profile is there"]


def test_a_process_without_stacks_does_not_spoil_the_others() -> None:
    profiles = Profiles(lambda: 5.0, lambda: [recorder(works), recorder(fails, "executor-1")])
    profiles.start(ONE, 1.0)

    assert ended(profiles, ONE) is ProfileState.COMPLETED
    view = profiles.get(ONE)
    assert view is not None
    assert [(each.process, each.failure) for each in view.processes] == [
        ("driver", None),
        ("executor-1", "Java is gone"),
    ]


def test_a_profile_without_any_stacks_has_failed() -> None:
    profiles = Profiles(lambda: 5.0, lambda: [recorder(fails)])
    profiles.start(ONE, 1.0)

    assert ended(profiles, ONE) is ProfileState.FAILED
    assert profiles.view().profiles[0].failure == "driver: Java is gone"


def test_the_last_five_are_remembered() -> None:
    profiles = Profiles(lambda: 5.0, lambda: [recorder(works)])
    names = [TriggerId(str(number)) for number in range(7)]
    for each in names:
        profiles.start(each, 1.0)
        ended(profiles, each)

    assert [each.id for each in profiles.view().profiles] == ["6", "5", "4", "3", "2"]
    assert profiles.get(names[0]) is None
