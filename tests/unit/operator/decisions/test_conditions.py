"""The conditions and their changes, by the rules of kstatus, Helm, Flux, Argo CD and `kubectl wait`."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle
from typing import Any

import pytest
from tests.simulation.operator.conditions import is_true
from tests.simulation.operator.objects import Stored
from tests.unit.operator.decisions.user import User

from streamjob.client.models import JobState, MigratingView, RewritingView
from streamjob.ids import OperatorUid
from streamjob_operator.decisions import Decision, decide
from streamjob_operator.decisions.values.actions import CreateDriver, Emit
from streamjob_operator.decisions.values.observation import Compatibility, Observation
from streamjob_operator.decisions.values.revision import revision_of
from streamjob_operator.resources.conditions import ConditionType, find_condition
from streamjob_operator.resources.status import LifecycleState


def kstatus(user: User) -> str:
    """Return what kstatus makes of the resource; the order is that of its `generic.go`."""
    stored, status = user.world.stored, user.status
    if stored.deleted:
        return "Terminating"
    if status.observed_generation != stored.generation:
        return "InProgress"
    conditions = status.conditions
    if is_true(conditions, ConditionType.RECONCILING):
        return "InProgress"
    if is_true(conditions, ConditionType.STALLED):
        return "Failed"
    ready = find_condition(conditions, ConditionType.READY)
    return "InProgress" if ready is not None and ready.status == "False" else "Current"


def test_a_job_is_current_only_once_it_has_completed_a_checkpoint() -> None:
    user = User()
    user.world.reconcile()
    assert kstatus(user) == "InProgress"
    user.wait_for(LifecycleState.DEPLOYED)
    assert kstatus(user) == "InProgress"

    user.wait_for(LifecycleState.STABLE)

    assert kstatus(user) == "Current"


@pytest.mark.parametrize("state", [JobState.RESTARTING, JobState.RESTORING])
@pytest.mark.parametrize("lifecycle", [LifecycleState.DEPLOYING, LifecycleState.STABLE])
def test_a_job_that_fails_in_its_pod_says_why_at_the_first_failure(lifecycle: LifecycleState, state: JobState) -> None:
    user = User.with_stable_job()
    stored = user.world.stored
    resource, seen = user.world.resource(stored), user.world.observe(stored)
    assert seen.job is not None
    seen = replace(seen, job=seen.job.model_copy(update={"state": state, "failure": "table orders is gone"}))
    status = resource.status.model_copy(update={"lifecycle_state": lifecycle})

    decision = decide(replace(resource, status=status), seen)

    for kind in (ConditionType.READY, ConditionType.RECONCILING, ConditionType.RUNNING):
        found = find_condition(decision.status.conditions, kind)
        assert found is not None
        assert f"{state}: table orders is gone" in found.message
    if lifecycle is LifecycleState.DEPLOYING:
        (event,) = [each for each in decision.actions if isinstance(each, Emit)]
        assert (event.type, event.reason) == ("Warning", "JobFailed")
        assert "table orders is gone" in event.message


def test_a_changed_spec_is_in_progress_from_its_first_moment_until_its_revision_is_stable() -> None:
    user = User.with_stable_job()
    user.edit(image="two")
    seen = [kstatus(user)]

    while kstatus(user) != "Current":
        user.look()
        seen.append(kstatus(user))

    assert set(seen[:-1]) == {"InProgress"}
    assert user.status.reconciliation.last_reconciled_revision == user.status.reconciliation.last_stable_revision


@pytest.mark.parametrize(
    ("behaviour", "state"), [("finite", LifecycleState.FINISHED), ("invalid", LifecycleState.FAILED)]
)
def test_a_job_that_has_ended_is_in_progress_from_the_first_moment_of_a_spec_that_starts_it_again(
    behaviour: str, state: LifecycleState
) -> None:
    user = User(job={"behaviour": behaviour})
    user.wait_for(state)
    assert kstatus(user) == ("Current" if state is LifecycleState.FINISHED else "Failed")

    user.edit(job={"behaviour": "good"}, upgradeMode="stateless")
    while user.state is not LifecycleState.STABLE:
        assert kstatus(user) == "InProgress"
        user.look()


def test_a_finished_job_stays_current_when_only_its_parallelism_changes() -> None:
    user = User(job={"behaviour": "finite"})
    user.wait_for(LifecycleState.FINISHED)

    user.edit(parallelism=2)
    user.look()

    assert kstatus(user) == "Current"
    assert user.state is LifecycleState.FINISHED


@pytest.mark.parametrize("behaviour", ["invalid", "unrestorable"])
def test_a_revision_that_is_rolled_back_is_failed_though_the_job_runs(behaviour: str) -> None:
    user = User.with_stable_job(upgrade={"preflight": False, "rollback": {"enabled": True}})

    user.edit(job={"behaviour": behaviour})
    user.wait_for(LifecycleState.ROLLED_BACK)

    assert kstatus(user) == "Failed"
    assert user.condition(ConditionType.RUNNING).status == "True"


def test_an_invalid_spec_is_failed_and_current_again_once_it_is_mended() -> None:
    user = User.with_stable_job()
    good = user.world.stored.spec
    user.world.apply({**good, "image": "two"}, valid=False)
    user.look(3)
    assert kstatus(user) == "Failed"

    user.world.apply(good)
    user.look(3)

    assert kstatus(user) == "Current"
    assert user.attempt == 1


def test_a_suspended_job_is_current() -> None:
    """Argo CD takes a suspended FlinkDeployment for one that never gets done."""
    user = User.with_stable_job()

    user.edit(suspend=True)
    user.wait_for(LifecycleState.SUSPENDED)
    user.look(3)

    assert kstatus(user) == "Current"
    assert user.condition(ConditionType.CHECKPOINT_HEALTHY).status == "Unknown"
    assert user.condition(ConditionType.RUNNING).status == "False"


def test_checkpoints_are_healthy_once_one_is_complete_and_not_when_they_are_overdue() -> None:
    user = User(healthCheck={"enabled": True, "checkpointProgress": {"window": "1m"}})
    user.wait_for(LifecycleState.DEPLOYED)
    assert user.condition(ConditionType.CHECKPOINT_HEALTHY).status == "Unknown"
    user.wait_for(LifecycleState.STABLE)
    assert user.condition(ConditionType.CHECKPOINT_HEALTHY).status == "True"

    user.world.processes[-1].behaviour = "hang"
    user.wait(lambda: user.condition(ConditionType.CHECKPOINT_HEALTHY).reason == "CheckpointOverdue")


def test_a_driver_that_is_restarted_is_in_progress() -> None:
    user = User.with_stable_job()

    user.world.kill_driver()
    user.look(3)

    assert kstatus(user) == "InProgress"
    assert user.condition(ConditionType.READY).reason == user.condition(ConditionType.RECONCILING).reason


def test_every_condition_speaks_of_the_present_generation() -> None:
    user = User.with_stable_job()
    user.edit(savepoints={"onDeletion": True})

    user.look()

    assert {each.observed_generation for each in user.status.conditions} == {2}
    usual = {each.value for each in ConditionType} - {ConditionType.EXECUTORS_READY}
    assert {each.type for each in user.status.conditions} == usual


def test_a_transition_time_moves_only_when_the_status_does() -> None:
    user = User.with_stable_job()
    since = user.condition(ConditionType.READY).last_transition_time

    user.edit(savepoints={"onDeletion": True})
    user.look(10)

    assert user.condition(ConditionType.READY).last_transition_time == since


def test_nothing_is_written_and_nothing_done_while_nothing_changes() -> None:
    user = User.with_stable_job()
    user.look(3)
    stored = user.world.stored
    resource, seen = user.world.resource(stored), user.world.observe(stored)

    decision = decide(resource, replace(seen, now=seen.now + 5))

    assert decision.status == resource.status
    assert decision.actions == ()


def compatibility(user: User, *, compatible: bool) -> Decision:
    """Return the decision if the spec's compatibility with the state was seen."""
    stored = user.world.stored
    resource = user.world.resource(stored)
    assert resource.spec is not None
    wanted = revision_of(resource.name, resource.spec)
    checked = Compatibility(revision=wanted.name, compatible=compatible, problems=("operator delays has no state",))
    seen = replace(
        user.world.observe(stored), compatibility=checked, revisions=(*user.world.revisions.values(), wanted)
    )
    return decide(resource, seen)


def test_a_spec_that_does_not_fit_the_state_leaves_the_job_alone_and_says_why() -> None:
    user = User.with_stable_job()
    user.edit(image="two")

    decision = compatibility(user, compatible=False)

    conditions = decision.status.conditions
    stalled = find_condition(conditions, ConditionType.STALLED)
    assert stalled is not None
    assert (stalled.status, stalled.reason) == ("True", "StateIncompatible")
    assert stalled.message == "operator delays has no state"
    assert decision.status.lifecycle_state is LifecycleState.STABLE
    assert find_condition(conditions, ConditionType.STATE_COMPATIBLE) is not None
    assert not is_true(conditions, ConditionType.STATE_COMPATIBLE)
    assert is_true(conditions, ConditionType.RUNNING)


def test_a_spec_that_does_not_fit_is_not_let_through_when_the_store_is_away_for_a_moment() -> None:
    user = User.with_stable_job()
    user.edit(image="two")
    stored = user.world.stored
    found = compatibility(user, compatible=False).status

    resource = replace(user.world.resource(stored), status=found)
    decision = decide(resource, replace(user.world.observe(stored), log=None))

    assert decision.status.lifecycle_state is LifecycleState.STABLE
    assert is_true(decision.status.conditions, ConditionType.STALLED)
    user.edit(image="three")
    assert decide(replace(user.world.resource(user.world.stored), status=found), user.world.observe(stored)).actions


def test_a_spec_that_fits_what_was_known_but_not_the_savepoint_gives_way_to_the_revision_that_ran() -> None:
    user = User.with_stable_job()
    ran = user.status.reconciliation.last_reconciled_revision
    observe, states = user.world.observe, set[LifecycleState]()

    def seen(read: Stored) -> Observation:
        observed, wanted = observe(read), user.world.resource(read).wanted
        assert wanted is not None
        states.add(user.state)
        fits = LifecycleState.UPGRADING not in states
        checked = Compatibility(revision=wanted.name, compatible=fits, problems=() if fits else ("it has no place",))
        return observed if wanted.name == ran else replace(observed, compatibility=checked)

    user.world.observe = seen  # type: ignore[method-assign]
    user.edit(image="two")
    user.wait_for(LifecycleState.UPGRADING)
    user.wait_for(LifecycleState.STABLE)
    user.look(20)

    assert user.attempt == 2
    assert user.status.reconciliation.last_reconciled_revision == ran
    last = user.did(CreateDriver)[-1]
    assert (last.revision, last.restore_from, last.require_snapshot) == (ran, "latest", True)
    assert user.condition(ConditionType.STALLED).reason == "StateIncompatible"
    assert user.condition(ConditionType.RUNNING).status == "True"


@pytest.mark.parametrize("changes", [{"upgrade": {"compatibilityCheck": "Warn"}}, {"upgradeMode": "stateless"}])
def test_a_spec_that_does_not_fit_is_deployed_if_its_user_wants_that(changes: dict[str, object]) -> None:
    user = User.with_stable_job()
    user.edit(image="two", **changes)

    decision = compatibility(user, compatible=False)

    assert decision.status.reconciliation.trials


def test_a_spec_that_fits_is_deployed() -> None:
    user = User.with_stable_job()
    user.edit(image="two")

    decision = compatibility(user, compatible=True)

    assert decision.status.reconciliation.trials
    assert is_true(decision.status.conditions, ConditionType.STATE_COMPATIBLE)


def test_an_image_that_is_missing_is_told_once_whichever_of_its_words_kubernetes_has() -> None:
    user = User(job={"behaviour": "no-image"})
    observe, words = user.world.observe, cycle(["ErrImagePull", "ImagePullBackOff"])

    def seen(read: Stored) -> Observation:
        observed, word = observe(read), next(words)
        return replace(observed, pods=tuple(replace(pod, reason=word, message="not found") for pod in observed.pods))

    user.world.observe = seen  # type: ignore[method-assign]
    user.look(20)

    assert user.condition(ConditionType.READY).reason in ("ErrImagePull", "ImagePullBackOff")
    told = [event for event in user.world.events if event.reason in ("ErrImagePull", "ImagePullBackOff")]
    assert [(event.type, event.message) for event in told] == [("Warning", "not found")]


def fail_checkpoints(user: User, times: int) -> None:
    """Make the driver report the given number of failed checkpoints in a row."""
    counts = user.status.checkpoint.counts.replaced(consecutive_failures=times)
    checkpoint = user.status.checkpoint.replaced(counts=counts)
    status = user.status.replaced(checkpoint=checkpoint).to_dict()
    user.world._write(replace(user.world.stored, status=status))


def test_checkpoints_that_fail_are_told_once_for_each_time_that_they_begin_to() -> None:
    user = User.with_stable_job(healthCheck={"enabled": False})
    fail_checkpoints(user, 1)
    user.look(3)
    fail_checkpoints(user, 2)
    user.look(3)
    assert user.condition(ConditionType.CHECKPOINT_HEALTHY).reason == "CheckpointsFail"
    assert user.reasons().count("CheckpointsFail") == 1

    fail_checkpoints(user, 0)
    user.look(2)
    fail_checkpoints(user, 1)
    user.look(2)
    assert user.reasons().count("CheckpointsFail") == 2


@pytest.mark.parametrize(
    ("step", "reason", "told_as"),
    [
        ({"rewriting": RewritingView(partitions=4, max_parallelism=8)}, "RewritingState", "from 4 partitions to 8"),
        (
            {"migrating": MigratingView(operators=(OperatorUid("counts"),), step="writing", done=3, partitions=8)},
            "MigratingState",
            "the state of counts is changed to the form that the job needs: writing, 3 of 8 partitions",
        ),
    ],
)
def test_what_is_done_to_the_state_is_told_by_conditions_and_once_by_an_event(
    step: dict[str, Any], reason: str, told_as: str
) -> None:
    user = User()
    user.wait(lambda: user.world.observe(user.world.stored).job is not None)
    stored = user.world.stored
    seen, resource = user.world.observe(stored), user.world.resource(stored)
    assert seen.job is not None
    starting = seen.job.model_copy(update={"state": JobState.RESTORING})
    busy = starting.model_copy(update=step)

    first = decide(resource, replace(seen, job=busy))
    second = decide(replace(resource, status=first.status), replace(seen, job=busy, now=seen.now + 2))
    third = decide(replace(resource, status=second.status), replace(seen, job=starting, now=seen.now + 4))

    told = [[each for each in decision.actions if isinstance(each, Emit)] for decision in (first, second, third)]
    assert [(each.type, each.reason) for each in told[0]] == [("Normal", reason)]
    assert [*told[1], *told[2]] == []
    for kind, status in ((ConditionType.RECONCILING, "True"), (ConditionType.READY, "False")):
        found = find_condition(second.status.conditions, kind)
        assert found is not None
        assert (found.status, found.reason) == (status, reason)
        assert told_as in found.message
    after = find_condition(third.status.conditions, ConditionType.RECONCILING)
    assert after is not None
    assert after.reason != reason
