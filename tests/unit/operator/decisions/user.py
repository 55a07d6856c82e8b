"""A user of the simulated world: applies specs, waits for what should come, and looks at what came."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from tests.simulation.operator.world import ClusterWorld

from streamjob_operator.decisions.values.actions import Action
from streamjob_operator.resources.conditions import Condition, ConditionType, find_condition
from streamjob_operator.resources.status import LifecycleState, StreamJobStatus

SPEC: dict[str, Any] = {
    "job": {"behaviour": "good"},
    "image": "one",
    "checkpointing": {"location": "s3://bucket/snapshots", "interval": "10s"},
    "healthCheck": {"checkpointProgress": {"window": "1m"}},
}


def merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return a spec with changes laid over it; None takes a field away."""
    result = deepcopy(base)
    for name, value in changes.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name, {}), value) if isinstance(value, dict) else value
    return result


class User:
    """A user with one StreamJob.

    Args:
        changes: laid over the usual spec.
    """

    def __init__(self, **changes: Any) -> None:
        self.world = ClusterWorld()
        self.world.apply(merged(SPEC, changes))

    @classmethod
    def with_stable_job(cls, **changes: Any) -> User:
        """Return a user whose job runs, and has completed a checkpoint."""
        user = cls(**changes)
        user.wait_for(LifecycleState.STABLE)
        return user

    @property
    def status(self) -> StreamJobStatus:
        return self.world.status

    @property
    def state(self) -> LifecycleState:
        return self.status.lifecycle_state

    @property
    def attempt(self) -> int:
        return self.status.job_status.attempt

    @property
    def newest(self) -> str:
        """The newest completion's path."""
        assert self.world.log.newest is not None
        return self.world.log.newest.path

    def edit(self, **changes: Any) -> None:
        """Change the spec."""
        self.world.apply(merged(self.world.stored.spec, changes))

    def look(self, times: int = 1, seconds: float = 1) -> None:
        """Let the controller look, and time pass."""
        for _ in range(times):
            self.world.reconcile()
            self.world.tick(seconds)

    def wait(self, done: Callable[[], bool], seconds: float = 1000) -> None:
        """Let time pass until something is so."""
        until = self.world.now + seconds
        while not done():
            assert self.world.now < until, (self.status.to_dict(), self.world.pods)
            self.look()

    def wait_for(self, state: LifecycleState, seconds: float = 1000) -> None:
        """Let time pass until the job's lifecycle is in a state."""
        self.wait(lambda: self.state is state, seconds)

    def condition(self, kind: ConditionType) -> Condition:
        """Return a condition."""
        found = find_condition(self.status.conditions, kind)
        assert found is not None
        return found

    def did(self, kind: type[Action]) -> list[Any]:
        """Return the actions of a kind that were carried out."""
        return [action for action in self.world.actions if isinstance(action, kind)]

    def reasons(self) -> list[str]:
        """Return the reasons of the events that were recorded."""
        return [event.reason for event in self.world.events]
