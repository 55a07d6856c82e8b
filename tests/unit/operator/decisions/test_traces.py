"""Tests of the spans of moves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from streamjob.telemetry.spans import Span, SpanContext
from streamjob_operator.decisions.status.traces import move_context, start_context, stop_context
from streamjob_operator.decisions.values.decision import Resource
from streamjob_operator.reconciling.tracing import Moves
from streamjob_operator.resources.status import StreamJobStatus

BEGIN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
UID = "0f3b6a52"


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def status(state: str, attempt: int, completed_by: int | None = None, **parts: Any) -> StreamJobStatus:
    content: dict[str, Any] = {
        "lifecycleState": state,
        "jobStatus": {"attempt": attempt, **parts.pop("job", {})},
        "reconciliation": {"decided": at(20), **parts},
    }
    if completed_by is not None:
        last = {"id": 9, "kind": "checkpoint", "path": "s3://x/9", "attempt": completed_by, "completed": at(30)}
        content["checkpoint"] = {"lastCompleted": last}
    return StreamJobStatus.model_validate(content)


def stop(purpose: str = "Upgrade", **more: Any) -> dict[str, Any]:
    return {"triggerId": "t", "purpose": purpose, "attempt": 3, "started": at(10), "mode": "savepoint", **more}


class Life:
    """Statuses of one job, one after the other, and the spans of its moves."""

    def __init__(self, first: StreamJobStatus) -> None:
        self.spans: list[Span] = []
        self.moves = Moves(self.spans.extend)
        self.status = first

    def then(self, seconds: float, after: StreamJobStatus, uid: str = UID) -> None:
        resource = Resource(name="views", namespace="shop", uid=uid, generation=1, spec=None, status=self.status)
        self.moves.note(resource, after, at(seconds))
        self.status = after

    def named(self, name: str) -> Span:
        (found,) = [each for each in self.spans if each.name == name]
        return found

    def times(self, name: str) -> tuple[float, float]:
        span = self.named(name)
        return span.start - BEGIN.timestamp(), span.end - BEGIN.timestamp()


def test_an_upgrade_lasts_from_its_decision_to_the_new_drivers_first_checkpoint() -> None:
    life = Life(status("STABLE", 3, 3))
    life.then(10, status("UPGRADING", 3, 3, stop=stop()))
    life.then(15, status("UPGRADING", 3, 3, stop=stop()))
    life.then(20, status("DEPLOYING", 4, 3))
    life.then(25, status("DEPLOYED", 4, 3))
    assert life.spans == []
    life.then(31, status("STABLE", 4, 4))

    upgrade = life.named("upgrade")
    assert (life.times("upgrade"), life.times("stop"), life.times("start")) == ((10, 30), (10, 20), (20, 30))
    assert (upgrade.parent, upgrade.error) == (None, None)
    assert upgrade.attributes == {"streamjob.job": "views", "streamjob.namespace": "shop", "streamjob.attempt": 4}
    assert life.named("stop").parent == life.named("start").parent == upgrade.context


def test_the_spans_have_the_identities_that_the_drivers_get() -> None:
    life = Life(status("STABLE", 3, 3))
    life.then(10, status("UPGRADING", 3, 3, stop=stop()))
    life.then(20, status("DEPLOYING", 4, 3))
    life.then(31, status("STABLE", 4, 4))

    assert life.named("upgrade").context == move_context(UID, 4)
    assert life.named("stop").context == stop_context(UID, 3)
    assert life.named("start").context == start_context(UID, 4)
    assert SpanContext.parse(stop_context(UID, 3).traceparent) == life.named("stop").context


def test_a_first_start_is_a_move_of_its_own() -> None:
    life = Life(status("CREATED", 0))
    life.then(20, status("DEPLOYING", 1))
    life.then(31, status("STABLE", 1, 1))

    roots = [each for each in life.spans if each.parent is None]
    assert [each.name for each in roots] == ["start"]
    assert len(life.spans) == 2


def test_a_suspension_ends_when_the_driver_is_gone() -> None:
    life = Life(status("STABLE", 3, 3))
    life.then(10, status("SUSPENDING", 3, 3, stop=stop("Suspend")))
    life.then(18, status("SUSPENDED", 3, 3))

    assert life.times("suspend") == life.times("stop") == (10, 18)
    assert life.named("suspend").error is None


def test_a_stop_that_is_postponed_has_failed() -> None:
    life = Life(status("STABLE", 3, 3))
    life.then(10, status("UPGRADING", 3, 3, stop=stop()))
    life.then(14, status("STABLE", 3, 3, stop=stop(nextTry=at(60), failure="no room")))

    assert life.named("upgrade").error == "no room"


def test_a_driver_that_fails_before_its_first_checkpoint_ends_the_move_with_its_failure() -> None:
    life = Life(status("STABLE", 3, 3))
    life.then(10, status("UPGRADING", 3, 3, stop=stop()))
    life.then(20, status("DEPLOYING", 4, 3))
    life.then(25, status("FAILED", 4, 3, job={"failure": "no such column"}))

    assert life.named("upgrade").error == life.named("start").error == "no such column"


def test_a_second_driver_of_the_same_revision_is_another_move() -> None:
    life = Life(status("DEPLOYING", 3))
    life.then(20, status("DEPLOYING", 4))
    life.then(22, status("DEPLOYING", 5))
    life.then(31, status("STABLE", 5, 5))

    (root,) = [each for each in life.spans if each.parent is None]
    assert root.context == move_context(UID, 5)


def test_nothing_is_traced_while_a_job_runs() -> None:
    life = Life(status("STABLE", 3, 3))
    life.then(10, status("STABLE", 3, 3))
    life.then(20, status("DEPLOYED", 3))

    assert life.spans == []


def test_a_new_job_with_the_name_of_another_one_has_nothing_of_its_moves() -> None:
    life = Life(status("STABLE", 3, 3))
    life.then(10, status("UPGRADING", 3, 3, stop=stop()))
    life.then(20, status("SUSPENDED", 3, 3), uid="another")

    assert life.spans == []
