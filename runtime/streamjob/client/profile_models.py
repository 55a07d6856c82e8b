"""The control API's models of profiles: where the CPU time of a job's processes goes."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from streamjob.client.chain_models import View
from streamjob.ids import TriggerId

MOST_SECONDS = 300.0
"""The longest profile."""


class ProfileState(StrEnum):
    """The state of a profile."""

    RECORDING = "RECORDING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


class ProcessProfile(View):
    """The stacks of one process as a tree, from which a flame graph is drawn.

    The tree is in `nodes`, each parent before its children; the first is the process itself.
    """

    process: str = Field(description="`driver`, or the name of an executor.")
    language: Literal["java", "python"]
    cpu_ms: float = Field(default=0.0, description="CPU time of the process in the profile, in ms.")
    frames: tuple[str, ...] = Field(default=(), description="The names of the frames.")
    nodes: tuple[tuple[int, int, float], ...] = Field(
        default=(), description="The number of the frame, the depth, and the CPU time in ms, callees included."
    )
    failure: str | None = Field(default=None, description="Why there are no stacks of this process; null if there are.")


class ProfileSummary(View):
    """A profile without its stacks."""

    id: TriggerId
    state: ProfileState
    seconds: float = Field(description="How long it records.")
    started: float
    failure: str | None = Field(default=None, description="Why it failed; null if it did not.")


class ProfileView(ProfileSummary):
    """A profile, with the stacks of each process once it has completed."""

    processes: tuple[ProcessProfile, ...] = ()


class ProfilesView(View):
    """The latest profiles of this process, newest first."""

    profiles: tuple[ProfileSummary, ...]
