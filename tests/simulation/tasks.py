"""Tasks without threads: generators of single steps, each of which yields its effect or its condition for waiting."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import TypeAlias

from tests.simulation.model import Row

from streamjob.ids import Epoch
from streamjob.protocol.log.claiming import CreateOutside
from streamjob.protocol.log.committing import SinkEffect
from streamjob.store.effects import StoreEffect


@dataclass(frozen=True)
class Pause:
    """A moment at which something else may happen."""

    at: str


@dataclass(frozen=True)
class Wait:
    """Go on when the condition holds."""

    until: Callable[[], bool]


@dataclass(frozen=True)
class Stage:
    """Stage rows in the sink."""

    name: str
    epoch: Epoch
    rows: tuple[Row, ...]


class SinkFailed(Exception):
    """The sink did not perform an operation, or only a part of it."""


class CommitFailed(Exception):
    """Spark could not commit an emitted batch."""


Effect: TypeAlias = StoreEffect | CreateOutside | SinkEffect | Pause | Wait | Stage
Steps: TypeAlias = Generator[Effect, object, None]


@dataclass
class Task:
    """A thread: its steps, the effect that it waits for, and when it was last run."""

    name: str
    steps: Steps
    effect: Effect = field(default_factory=lambda: Pause("start"))
    last_step: int = 0

    @property
    def runnable(self) -> bool:
        """Whether the task could make a step now."""
        return not isinstance(self.effect, Wait) or self.effect.until()
