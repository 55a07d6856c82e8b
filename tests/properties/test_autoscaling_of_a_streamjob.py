"""A StreamJob that scales stays within its bounds, moves rarely and keeps its spec, whatever befalls its controller."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.simulation.operator.executor_pods import ExecutorPods
from tests.simulation.operator.load import LoadedCluster
from tests.simulation.operator.objects import Stored
from tests.simulation.operator.world import Mishap
from tests.unit.operator.decisions.user import SPEC, merged

from streamjob.autoscaling import Means, unpack_memory
from streamjob.autoscaling.capacity import pause_of
from streamjob_operator.decisions import Decision, Resource
from streamjob_operator.resources.status import StreamJobStatus

_LEVELS = st.lists(st.tuples(st.integers(3, 8), st.integers(0, 150_000)), min_size=2, max_size=3)
"""Minutes, records per second."""
_MISHAPS = st.lists(
    st.one_of(
        st.none(),
        st.builds(Mishap, stale=st.integers(0, 2), dies_at=st.integers(0, 3)),
        st.sampled_from(["kill", "away", "back"]),
    ),
    min_size=5,
    max_size=40,
)
_POLICIES = st.fixed_dictionaries(
    {
        "mode": st.just("Act"),
        "min": st.integers(1, 3),
        "max": st.integers(3, 20),
        "scaleDownDelay": st.sampled_from(["1m", "5m"]),
        "maxLag": st.sampled_from(["10s", "1m"]),
    },
    optional={"maxMovesPerDay": st.integers(1, 24)},
)
_BY_DRIVER = st.fixed_dictionaries(
    {"means": st.sampled_from([["Restart"], ["InPlace", "Restart"], ["InPlace"]])},
    optional={"cpuPerSlot": st.sampled_from(["500m", "2"])},
).map(lambda scaling: {"autoscaling": scaling})
_BY_EXECUTORS = st.integers(1, 3).map(
    lambda cores: {"executor": {"cores": cores}, "checkpointing": {"location": "s3://bucket/job"}}
)
_JOBS = st.builds(
    lambda policy, job: merged(merged(SPEC, {"parallelism": 6, "autoscaling": policy}), job),
    _POLICIES,
    st.one_of(_BY_DRIVER, _BY_EXECUTORS),
)


def run(world: LoadedCluster, minutes: int, mishaps: list[Any]) -> None:
    """Let time pass, with what befalls the controller and its world on the way."""
    until = world.now + minutes * 60
    while world.now < until:
        mishap = mishaps.pop() if mishaps else None
        if mishap == "kill":
            world.kill_driver()
        elif isinstance(mishap, str):
            world.api_up = mishap == "back"
        decision = world.reconcile(mishap if isinstance(mishap, Mishap) else None)
        delay = 15 if decision is None or decision.requeue is None else decision.requeue
        world.tick(max(1, min(delay, 15)))


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_JOBS, _LEVELS, _MISHAPS, st.integers(2, 24))
def test_a_job_stays_within_its_bounds_and_moves_rarely(
    spec: dict[str, Any], levels: list[tuple[int, int]], mishaps: list[Any], room: int
) -> None:
    world = LoadedCluster(room=room, executors=ExecutorPods(room=room))
    world.apply(spec)
    policy, cores = spec["autoscaling"], spec.get("executor", {}).get("cores", 1)
    for minutes, rate in levels:
        world.rate = rate
        run(world, minutes, mishaps)
    world.api_up = True
    run(world, 5, [])

    assert world.stored.spec == spec
    seen = []
    for stored in world.history:
        scaling = stored.status.get("autoscaling")
        if scaling is not None:
            assert scaling["parallelism"] <= policy["max"]
            assert scaling["parallelism"] % cores == 0
            assert scaling["parallelism"] >= min(policy["min"], policy["max"] // cores * cores)
            seen.append(scaling)
    memory = unpack_memory(seen[-1]["memory"])
    chosen = [move for move in memory.moves if move.rule not in ("External", "MoveFailed")]
    for before, after in pairwise(chosen):
        assert after.time - before.time > 60
    assert len({(move.time, move.after) for move in memory.moves}) == len(memory.moves)
    assert pause_of(memory, Means.RESTART) < 1800


class OneLife(LoadedCluster):
    """A cluster whose controller never restarts: it goes on from the status in its memory, not from the stored one."""

    last: StreamJobStatus | None = None

    def reconcile(self, life: Mishap | None = None) -> Decision | None:
        """Do one reconciliation."""
        decision = super().reconcile(life)
        self.last = None if decision is None else decision.status
        return decision

    def resource(self, read: Stored) -> Resource:
        """Return the resource as a decision gets it."""
        found = super().resource(read)
        is_newest = self.last is not None and self.last.to_dict() == read.status
        return replace(found, status=self.last) if is_newest and self.last is not None else found


@pytest.mark.slow
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_JOBS, _LEVELS)
def test_a_controller_that_restarts_before_each_decision_decides_as_one_that_never_does(
    spec: dict[str, Any], levels: list[tuple[int, int]]
) -> None:
    worlds = [LoadedCluster(), OneLife()]
    for world in worlds:
        world.apply(spec)
        for minutes, rate in levels:
            world.rate = rate
            run(world, minutes, [])

    restarted, lasting = (world.stored.status for world in worlds)
    assert restarted["autoscaling"]["memory"]
    assert restarted == lasting
