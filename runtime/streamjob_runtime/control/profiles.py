"""Records profiles of a job's processes, one at a time, and remembers the latest."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

from streamjob.client.profile_models import (
    ProcessProfile,
    ProfileState,
    ProfileSummary,
    ProfilesView,
    ProfileView,
)
from streamjob.clock import Clock
from streamjob.ids import TriggerId
from streamjob_runtime.control.api.refusals import StateConflict
from streamjob_runtime.profiling.stacks import Stacks, profile_of

Language = Literal["java", "python"]

_REMEMBERED = 5

log = logging.getLogger("streamjob")


@dataclass(frozen=True, slots=True)
class Recorder:
    """A process that can be profiled.

    Args:
        process: its name.
        languages: those of its stacks.
        record: returns its stacks by language, given the seconds; it blocks as long.
    """

    process: str
    languages: tuple[Language, ...]
    record: Callable[[float], dict[Language, Stacks]]


class Profiles:
    """The profiles of a job; any thread may call it.

    Args:
        clock: seconds since 1970.
        recorders: returns the processes of the job.
        noted: is called with a sentence and an id when a profile starts or ends.
    """

    def __init__(
        self,
        clock: Clock,
        recorders: Callable[[], Sequence[Recorder]],
        noted: Callable[[str, TriggerId], None] = lambda sentence, profile: None,
    ) -> None:
        self._clock = clock
        self._recorders = recorders
        self._noted = noted
        self._lock = threading.Lock()
        self._profiles: OrderedDict[TriggerId, ProfileView] = OrderedDict()

    def start(self, profile: TriggerId, seconds: float) -> None:
        """Start to record, unless a profile with this id exists.

        Args:
            profile: its id.
            seconds: how long to record.

        Raises:
            StateConflict: another one is being recorded.
        """
        with self._lock:
            if profile in self._profiles:
                return
            running = next((each for each in self._profiles.values() if each.state is ProfileState.RECORDING), None)
            if running is not None:
                raise StateConflict(f"The profile {running.id} is being recorded", "ask again when it has ended")
            view = ProfileView(id=profile, state=ProfileState.RECORDING, seconds=seconds, started=self._clock())
            self._profiles[profile] = view
            while len(self._profiles) > _REMEMBERED:
                self._profiles.popitem(last=False)
        self._noted(f"a profile of {seconds:g} seconds was requested", profile)
        threading.Thread(target=self._record, args=(view,), name="profile", daemon=True).start()

    def get(self, profile: TriggerId) -> ProfileView | None:
        """Return a profile; None if there is none with this id, or it is one of long ago."""
        with self._lock:
            return self._profiles.get(profile)

    def view(self) -> ProfilesView:
        """Return the latest profiles without their stacks."""
        with self._lock:
            latest = list(reversed(self._profiles.values()))
        fields = set(ProfileSummary.model_fields)
        return ProfilesView(profiles=tuple(ProfileSummary(**each.model_dump(include=fields)) for each in latest))

    def _record(self, view: ProfileView) -> None:
        recorders = self._recorders()
        with ThreadPoolExecutor(max(1, len(recorders)), thread_name_prefix="profile") as pool:
            parts = pool.map(lambda each: _recorded(each, view.seconds), recorders)
            processes = tuple(process for part in parts for process in part)
        failures = [f"{each.process}: {each.failure}" for each in processes if each.failure is not None]
        failed = len(failures) == len(processes)
        ended = view.model_copy(
            update={
                "state": ProfileState.FAILED if failed else ProfileState.COMPLETED,
                "failure": "; ".join(failures) if failed else None,
                "processes": processes,
            }
        )
        with self._lock:
            if view.id in self._profiles:
                self._profiles[view.id] = ended
        self._noted("the profile failed" if failed else "the profile is there", view.id)


def _recorded(recorder: Recorder, seconds: float) -> list[ProcessProfile]:
    try:
        stacks = recorder.record(seconds)
        return [profile_of(recorder.process, language, stacks[language]) for language in recorder.languages]
    except Exception as error:
        log.info("The profile lacks %s: %s", recorder.process, error)
        failure = str(error) or type(error).__name__
        return [
            ProcessProfile(process=recorder.process, language=language, failure=failure)
            for language in recorder.languages
        ]
