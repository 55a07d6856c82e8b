"""Which revisions are kept."""

from __future__ import annotations

from tests.unit.operator.decisions.user import User

from streamjob_operator.decisions.shared.history import KEPT
from streamjob_operator.decisions.values.actions import CreateDriver
from streamjob_operator.resources.status import LifecycleState


def test_old_revisions_go_once_a_newer_one_is_stable() -> None:
    user = User.with_stable_job(upgradeMode="last-state")
    for number in range(KEPT + 3):
        user.edit(image=f"image-{number}")
        user.wait_for(LifecycleState.UPGRADING)
        user.wait_for(LifecycleState.STABLE)
    user.look(3)

    images = [revision.content["image"] for revision in user.world.revisions.values()]
    assert images == [f"image-{number}" for number in range(3, KEPT + 3)]


def test_a_revision_that_is_gone_is_stored_again_before_its_driver_is_made() -> None:
    user = User.with_stable_job()
    user.world.check_status = lambda: None  # type: ignore[method-assign]
    user.world.kill_driver()
    user.wait(lambda: user.attempt == 2)
    user.world.revisions.clear()

    user.wait(lambda: len(user.world.starts) == 2)

    assert user.did(CreateDriver)[-1].revision in user.world.revisions


def test_a_job_whose_revision_is_gone_while_its_spec_cannot_be_used_fails() -> None:
    user = User.with_stable_job()
    user.world.apply({**user.world.stored.spec, "image": "two"}, valid=False)
    user.world.check_status = lambda: None  # type: ignore[method-assign]
    user.world.revisions.clear()
    user.world.kill_driver()

    user.wait_for(LifecycleState.FAILED)

    assert user.status.job_status.failure_reason == "RevisionMissing"
