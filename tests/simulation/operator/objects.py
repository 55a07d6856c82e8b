"""The objects of the small cluster: versions of a StreamJob, and pods; and what a controller remembers of pods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.simulation.operator.runtime import Process

from streamjob_operator.decisions.values.actions import CreateDriver
from streamjob_operator.decisions.values.memory import Memory

GRACE = 30


@dataclass(frozen=True)
class Stored:
    """A version of the StreamJob in the API server."""

    version: int
    generation: int
    spec: dict[str, Any]
    status: dict[str, Any]
    valid: bool
    deleted: bool = False
    finalizer: bool = False


@dataclass
class Pod:
    """A pod and its process.

    `node_lost`: the process continues but cannot be observed. `silent_end`: it leaves no termination message.
    """

    name: str
    uid: str
    attempt: int
    revision: str
    created: float
    made: CreateDriver
    process: Process | None = None
    started: float | None = None
    deleting: float | None = None
    grace: int = GRACE
    node_lost: bool = False
    silent_end: bool = False


def awaits(memory: Memory, attempt: int) -> bool:
    """Whether a memory names a successor that is to take over."""
    successor = memory.successor
    return successor is not None and successor.attempt == attempt and successor.failure is None


def decided_on(memory: Memory, action: CreateDriver) -> bool:
    """Whether a memory has the driver that an action makes."""
    if action.waits:
        found = memory.successor
        return found is not None and (found.attempt, found.revision) == (action.attempt, action.revision)
    decided = (memory.attempt, memory.revision, memory.restore.source, memory.in_run)
    return decided == (action.attempt, action.revision, action.restore_from, action.available_now)


def has_seen(memory: Memory, attempt: int) -> bool:
    """Whether a memory says that the pod of an attempt was seen."""
    following = memory.successor
    if following is not None and following.attempt == attempt:
        return following.driver is not None
    return memory.attempt == attempt and memory.driver is not None
