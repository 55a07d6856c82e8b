"""The objects of the small cluster: versions of a StreamJob, and pods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.simulation.operator.runtime import Process

from streamjob_operator.decisions.actions import CreateDriver

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
