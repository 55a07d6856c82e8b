"""A user of a StreamJob that the controller scales by its load."""

from __future__ import annotations

from typing import Any

from tests.simulation.operator.load import LoadedCluster
from tests.unit.operator.decisions.user import SPEC, User, merged

from streamjob_operator.resources.status import AutoscalingStatus, LifecycleState

ACT: dict[str, Any] = {"mode": "Act", "min": 1, "max": 16, "maxLag": "1m", "scaleDownDelay": "10m"}

RESTARTS = ACT | {"means": ["Restart"]}
IN_PLACE = ACT | {"cpuPerSlot": "500m"}
EXECUTORS: dict[str, Any] = {"executor": {"cores": 2}, "checkpointing": {"location": "s3://bucket/job"}}


class Operator(User):
    """A user whose job has a load."""

    world: LoadedCluster

    def __init__(self, *, autoscaling: dict[str, Any], rate: float = 30_000, **changes: Any) -> None:
        self.world = LoadedCluster(rate=rate)
        self.world.apply(merged(SPEC, {"parallelism": 4, "autoscaling": autoscaling, **changes}))
        self.wait_for(LifecycleState.STABLE)

    @property
    def scaling(self) -> AutoscalingStatus:
        found = self.status.autoscaling
        assert found is not None
        return found

    def minutes(self, number: float) -> None:
        """Let time pass, with a look as often as the decisions ask for it."""
        until = self.world.now + number * 60
        while self.world.now < until:
            decision = self.world.reconcile()
            if decision is None:
                return
            self.world.tick(max(1, min(decision.requeue if decision.requeue is not None else 15, 15)))


def change_rate(user: Operator, rate: int, *, minutes: int) -> None:
    """Let the job run for ten minutes, then change its load and let it run on."""
    user.minutes(10)
    user.world.rate = rate
    user.minutes(minutes)


def fields(user: Operator) -> dict[str, Any]:
    """Return the stored fields of the user's job, by name."""
    stored = user.world.stored
    return {name: getattr(stored, name) for name in stored.__dataclass_fields__}
