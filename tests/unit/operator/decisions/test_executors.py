"""The fate of a job's executors, by the state of the job and of its objects."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from streamjob.client.models import ExecutorsView, ExecutorView, JobState, JobView
from streamjob_operator.decisions.shared import executors
from streamjob_operator.decisions.states.deletion import deleting
from streamjob_operator.decisions.values.actions import Action, DeleteExecutor, EnsureExecutors, RemoveExecutors
from streamjob_operator.decisions.values.decision import Resource
from streamjob_operator.decisions.values.memory import Memory
from streamjob_operator.decisions.values.observation import (
    Admission,
    DriverPod,
    ExecutorPod,
    ExecutorSet,
    Observation,
    PodPhase,
)
from streamjob_operator.decisions.values.revision import Revision, revision_of
from streamjob_operator.decisions.values.situation import Limits, Situation
from streamjob_operator.resources.status import ExecutorStatus, LifecycleState, StreamJobStatus
from streamjob_operator.resources.streamjob import StreamJobSpec

NOW = 1_000_000.0
DRIVER = DriverPod(name="job-driver-3", attempt=3, uid="d", phase=PodPhase.RUNNING, created=NOW - 90, started=NOW - 80)


def revision(**executor: Any) -> Revision:
    """Return a revision; without arguments, one whose tasks run in the driver's pod."""
    spec = {"job": {}, "checkpointing": {"location": "s3://b"}} | ({"executor": executor} if executor else {})
    return revision_of("job", StreamJobSpec.model_validate(spec))


TWO, NONE = revision(instances=2), revision()


def executor_set(replicas: int = 2, *, of: Revision = TWO, message: str = "") -> ExecutorSet:
    return ExecutorSet(revision=of.name, replicas=replicas, template="now", message=message)


def executor(number: int, *, ready: bool = True, template: str = "now", **fields: Any) -> ExecutorPod:
    phase = fields.pop("phase", PodPhase.RUNNING)
    return ExecutorPod(name=f"e-{number}", template=template, phase=phase, created=NOW - 60, ready=ready, **fields)


READY = (executor(0), executor(1))


def situation(
    *,
    lifecycle: LifecycleState = LifecycleState.STABLE,
    of: Revision = TWO,
    driver: DriverPod | None = DRIVER,
    found: ExecutorSet | None = None,
    pods: tuple[ExecutorPod, ...] = (),
    admissions: tuple[Admission, ...] = (),
) -> Situation:
    return Situation(
        resource=Resource(name="job", generation=1, spec=of.spec(), status=StreamJobStatus()),
        memory=Memory(lifecycle=lifecycle, since=NOW - 10, attempt=3, revision=of.name),
        seen=Observation(
            now=NOW,
            pods=() if driver is None else (driver,),
            executors=found,
            executor_pods=pods,
            revisions=(of,),
            admissions=admissions,
        ),
        limits=Limits(),
    )


ENSURE = EnsureExecutors(revision=TWO.name, instances=2)
REST = EnsureExecutors(revision=TWO.name, instances=0)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        pytest.param({"found": executor_set(), "pods": READY}, (), id="all is as it should be"),
        pytest.param({}, (ENSURE,), id="somebody has deleted the set"),
        pytest.param({"found": executor_set(5), "pods": READY}, (ENSURE,), id="somebody has scaled the set"),
        pytest.param({"found": executor_set(of=NONE), "pods": READY}, (ENSURE,), id="the set is of another revision"),
        pytest.param({"of": NONE}, (), id="a job without executors"),
        pytest.param({"of": NONE, "found": executor_set()}, (RemoveExecutors(),), id="executors no longer wanted"),
        pytest.param({"driver": None}, (), id="the next driver brings them"),
        pytest.param({"lifecycle": LifecycleState.UPGRADING, "found": executor_set(1)}, (), id="a stop needs them"),
        pytest.param({"lifecycle": LifecycleState.SUSPENDING, "found": executor_set(1)}, (), id="so does a savepoint"),
        pytest.param(
            {"lifecycle": LifecycleState.SUSPENDED, "driver": None, "found": executor_set()}, (REST,), id="suspended"
        ),
        pytest.param(
            {"lifecycle": LifecycleState.SUSPENDED, "driver": None, "found": executor_set(0)}, (), id="resting already"
        ),
        pytest.param({"lifecycle": LifecycleState.FINISHED, "found": executor_set()}, (REST,), id="all work is done"),
        pytest.param({"lifecycle": LifecycleState.FAILED, "found": executor_set()}, (REST,), id="nothing is tried"),
        pytest.param(
            {"lifecycle": LifecycleState.SUSPENDED, "of": NONE, "found": executor_set()},
            (RemoveExecutors(),),
            id="suspended without executors",
        ),
        pytest.param(
            {"found": executor_set(), "pods": (executor(0, template="old"), executor(1))},
            (DeleteExecutor(name="e-0"),),
            id="a pod of an older template",
        ),
        pytest.param(
            {"found": executor_set(), "pods": (executor(0, template="old", deleting=NOW + 9), executor(1))},
            (),
            id="which goes already",
        ),
        pytest.param(
            {"found": executor_set(), "pods": (executor(0, deleting=NOW - 59), executor(1))}, (), id="ends a bit late"
        ),
        pytest.param(
            {"found": executor_set(), "pods": (executor(0, deleting=NOW - 61), executor(1))},
            (DeleteExecutor(name="e-0", grace=0),),
            id="never ends, because its node is lost",
        ),
    ],
)
def test_executors_are_kept_as_the_job_needs_them(state: dict[str, Any], expected: tuple[Action, ...]) -> None:
    assert executors.upkeep(situation(**state)) == expected


@pytest.mark.parametrize(
    ("state", "before", "expected"),
    [
        pytest.param({"of": NONE}, None, None, id="no executors"),
        pytest.param({"found": executor_set()}, None, (2, 0, 0), id="none has come yet"),
        pytest.param({"found": executor_set(), "pods": READY}, (2, 1, 0), (2, 2, 0), id="all have come"),
        pytest.param({"found": executor_set(), "pods": READY[:1]}, (2, 2, 0), (2, 1, 1), id="one is lost"),
        pytest.param({"found": executor_set(), "pods": READY[:1]}, (2, 1, 1), (2, 1, 1), id="still lost"),
        pytest.param({"found": executor_set(), "pods": READY}, (2, 1, 1), (2, 2, 0), id="it is replaced"),
        pytest.param({"found": executor_set(), "pods": READY[:1]}, (2, 1, 0), (2, 1, 0), id="not lost: it never came"),
        pytest.param(
            {"found": executor_set(), "pods": (executor(0, deleting=NOW + 9), executor(1))},
            (2, 2, 0),
            (2, 1, 1),
            id="one is about to go",
        ),
        pytest.param(
            {"found": executor_set(), "pods": (executor(0, template="old"), executor(1))},
            (2, 2, 0),
            (2, 1, 1),
            id="one of an older template cannot work",
        ),
        pytest.param(
            {"lifecycle": LifecycleState.DEPLOYING, "found": executor_set(), "pods": ()},
            (2, 2, 0),
            (2, 0, 0),
            id="none is lost while no driver runs",
        ),
        pytest.param(
            {"lifecycle": LifecycleState.SUSPENDED, "found": executor_set(0), "pods": READY[:1]},
            (2, 2, 0),
            (0, 0, 0),
            id="none is wanted",
        ),
    ],
)
def test_executors_are_counted(
    state: dict[str, Any], before: tuple[int, int, int] | None, expected: tuple[int, int, int] | None
) -> None:
    known = None if before is None else ExecutorStatus(desired=before[0], ready=before[1], lost=before[2])

    found = executors.reported(situation(**state), known)

    assert (None if found is None else (found.desired, found.ready, found.lost)) == expected


def test_an_executor_is_ready_if_this_driver_has_it_whatever_kubernetes_says_of_its_pod() -> None:
    s = situation(found=executor_set(), pods=READY)
    second = ExecutorView(id="7", name="e-1", host="h", cores=1, state_stores=0, state_bytes=0)
    one = ExecutorsView(wanted=2, executors=(second,))
    job = JobView(
        state=JobState.RUNNING, name="job", namespace="default", attempt=3, start_time=0, uptime=0, executors=one
    )
    answered = executors.reported(replace(s, seen=replace(s.seen, job=job)), ExecutorStatus(desired=2, ready=2))
    starting = executors.reported(situation(lifecycle=LifecycleState.DEPLOYING, found=executor_set(), pods=READY), None)

    assert answered == ExecutorStatus(desired=2, ready=1, lost=1)
    assert starting == ExecutorStatus(desired=2, ready=0, lost=0)


PULL = executor(1, ready=False, phase=PodPhase.PENDING, reason="ImagePullBackOff", message="no such image: two")
COMES = executor(1, ready=False, phase=PodPhase.PENDING, reason="ContainerCreating")
QUOTA = "create Pod e-1 in StatefulSet e failed: exceeded quota: pods"


@pytest.mark.parametrize(
    ("pods", "lost", "message", "expected", "said"),
    [
        pytest.param(READY, 0, "", ("True", "ExecutorsReady"), "2 of 2 executors are ready", id="ready"),
        pytest.param(READY[:1], 0, "", ("False", "ExecutorsStarting"), "1 of 2", id="one is still to come"),
        pytest.param(READY[:1], 1, "", ("False", "ExecutorsLost"), "1 of 2", id="one is lost"),
        pytest.param(
            (READY[0], PULL), 0, "", ("False", "ImagePullBackOff"), "e-1: no such image: two", id="cannot start"
        ),
        pytest.param((READY[0], COMES), 1, "", ("False", "ExecutorsLost"), "e-1: ContainerCreating", id="comes back"),
        pytest.param(READY[:1], 0, QUOTA, ("False", "FailedCreate"), QUOTA, id="pods are rejected"),
    ],
)
def test_the_cause_is_told_if_executors_are_not_ready(
    pods: tuple[ExecutorPod, ...], lost: int, message: str, expected: tuple[str, str], said: str
) -> None:
    s = situation(found=executor_set(message=message), pods=pods)
    ready = sum(each.ready for each in pods)

    found = executors.readiness(s, ExecutorStatus(desired=2, ready=ready, lost=lost))

    assert found is not None
    assert found[:2] == expected
    assert said in found[2]


def test_a_rejection_by_the_api_server_is_quoted() -> None:
    rejected = Admission(revision=TWO.name, time=NOW, rejection="spec.template: Invalid value")

    found = executors.readiness(situation(admissions=(rejected,)), ExecutorStatus(desired=2))

    assert found is not None
    assert found[1] == "PodRejected"
    assert "Invalid value" in found[2]


@pytest.mark.parametrize(
    ("found", "pods", "since", "waits"),
    [
        pytest.param(executor_set(), READY, 10, True, id="they run"),
        pytest.param(None, READY[:1], 10, True, id="one is still ending"),
        pytest.param(None, (executor(0, phase=PodPhase.FAILED),), 10, False, id="all have ended"),
        pytest.param(None, (), 10, False, id="all are gone"),
        pytest.param(executor_set(), READY, 61, False, id="one on a lost node is not waited for for ever"),
    ],
)
def test_a_deletion_waits_until_no_executor_can_upload_anything(
    found: ExecutorSet | None, pods: tuple[ExecutorPod, ...], since: int, waits: bool
) -> None:
    s = situation(lifecycle=LifecycleState.DELETING, driver=None, found=found, pods=pods)
    object.__setattr__(s.memory, "since", NOW - since)

    step = deleting(s)

    assert (step.message == "the executors have to go first") is waits
    assert (RemoveExecutors() in step.actions) is (waits and found is not None)
