"""Any failure with one resource is reported on it, and never prevents its deletion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.operator.edge.bench import NAME, NAMESPACE, SPEC, Bench, a_job, running
from tests.unit.operator.edge.test_reconciling import snapshot

from streamjob_operator.cluster.api import Refused, Unavailable
from streamjob_operator.cluster.kinds import POD, STREAM_JOB, STREAM_SNAPSHOT, Object
from streamjob_operator.decisions import Decision, Resource, decide
from streamjob_operator.decisions.values.observation import Observation
from streamjob_operator.evaluation.validation import judge


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)


class Fickle:
    """Decides as the controller does, or raises."""

    def __init__(self) -> None:
        self.error: Exception | None = None

    def __call__(self, resource: Resource, seen: Observation) -> Decision:
        if self.error is not None:
            raise self.error
        return decide(resource, seen)


@pytest.fixture
def fickle() -> Fickle:
    return Fickle()


@pytest.fixture
def bench(tmp_path: Path, fickle: Fickle) -> Bench:
    return Bench(tmp_path, decide=fickle)


def nested(levels: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


def job_with(**operator: object) -> Object:
    job: Object = SPEC["job"]
    return job | {"operators": [job["operators"][0] | operator]}


DEPTHS = {
    "parentheses": {"job": job_with(sql="SELECT " + "(" * 3000 + "value" + ")" * 3000 + " FROM numbers")},
    "subqueries": {"job": job_with(sql="SELECT * FROM (" * 3000 + "SELECT value FROM numbers" + ")" * 3000)},
    "options": {"job": SPEC["job"] | {"sources": [SPEC["job"]["sources"][0] | {"options": {"a": nested(3000)}}]}},
    "schema": {
        "job": SPEC["job"]
        | {"sources": [SPEC["job"]["sources"][0] | {"schema": "a " + "ARRAY<" * 3000 + "INT" + ">" * 3000}]}
    },
    "json": {
        "job": SPEC["job"]
        | {
            "sources": [
                {
                    "name": "numbers",
                    "format": "kafka",
                    "options": {
                        "kafka.bootstrap.servers": "a:1",
                        "subscribe": "a",
                        "startingOffsets": "[" * 50_000 + "]" * 50_000,
                    },
                }
            ]
        }
    },
    "template": {"driver": {"template": {"spec": nested(200)}}},
    "affinity": {"driver": {"affinity": {"a": nested(3000)}}},
    "a schedule of ages": {"savepoints": {"schedule": "999999999999d"}},
}


@pytest.mark.parametrize("spec", DEPTHS.values(), ids=DEPTHS)
def test_a_spec_that_is_nested_too_deeply_has_that_problem(spec: dict[str, Any]) -> None:
    _, problems, revision = judge(a_job(**spec))

    assert revision is None
    assert 0 < sum(len(problem) for problem in problems) < 1000
    assert not any("Error" in problem for problem in problems)


@pytest.mark.parametrize("name", ["parentheses", "a schedule of ages"])
async def test_a_spec_that_cannot_be_checked_stalls_its_resource_and_can_be_deleted(bench: Bench, name: str) -> None:
    await running(bench)
    bench.cluster.edit(STREAM_JOB, NAMESPACE, NAME, spec=SPEC | DEPTHS[name])
    await bench.step()
    stalled = bench.condition("Stalled")
    assert (stalled["status"], stalled["reason"]) == ("True", "InvalidSpec")
    await bench.cluster.delete(STREAM_JOB, NAMESPACE, NAME)
    await bench.until(lambda: not bench.cluster.names(STREAM_JOB))


async def test_an_unexpected_error_is_a_condition_and_an_event_until_it_is_over(bench: Bench, fickle: Fickle) -> None:
    await running(bench)
    fickle.error = ZeroDivisionError("division by zero")
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            await bench.jobs.reconcile(NAMESPACE, NAME)
    for kind, status in (("Ready", "False"), ("Reconciling", "True")):
        found = bench.condition(kind)
        assert (found["status"], found["reason"]) == (status, "ReconcileFailed")
        assert found["message"] == "ZeroDivisionError: division by zero"
    assert "ReconcileFailed" in bench.events()
    assert bench.lifecycle == "STABLE"
    fickle.error = None
    await bench.until(lambda: bool(bench.condition("Ready")["status"] == "True"))


async def test_an_action_that_is_refused_is_a_condition_for_as_long_as_it_is(bench: Bench) -> None:
    await bench.cluster.create(STREAM_JOB, a_job())
    bench.cluster.faults["patch"] = [Refused("the finalizer is forbidden")] * 2
    for _ in range(2):
        with pytest.raises(Refused):
            await bench.until(lambda: bench.lifecycle == "STABLE")
        assert bench.condition("Ready")["message"] == "the finalizer is forbidden"
    await bench.until(lambda: bench.condition("Ready")["reason"] != "ReconcileFailed")


async def test_an_api_server_that_is_silent_is_no_news_of_a_job(bench: Bench, fickle: Fickle) -> None:
    await running(bench)
    before = bench.job
    fickle.error = Unavailable("no answer")
    with pytest.raises(Unavailable):
        await bench.jobs.reconcile(NAMESPACE, NAME)
    assert bench.job == before


async def test_texts_that_are_others_each_time_do_not_keep_an_object_awake(bench: Bench, fickle: Fickle) -> None:
    await running(bench)
    versions = set()
    for number in range(5):
        fickle.error = ValueError(f"number {number}")
        with pytest.raises(ValueError):
            await bench.jobs.reconcile(NAMESPACE, NAME)
        versions.add(bench.job["metadata"]["resourceVersion"])
    assert len(versions) == 1


async def try_to_delete(bench: Bench, times: int) -> None:
    await bench.cluster.delete(STREAM_JOB, NAMESPACE, NAME)
    for _ in range(times):
        if not bench.cluster.names(STREAM_JOB):
            return
        with pytest.raises((LookupError, ValueError, Refused)):
            await bench.jobs.reconcile(NAMESPACE, NAME)


async def test_a_job_that_is_deleted_goes_although_the_controller_has_a_defect(bench: Bench, fickle: Fickle) -> None:
    await running(bench)
    fickle.error = KeyError("a defect")
    await try_to_delete(bench, 20)
    assert bench.cluster.names(STREAM_JOB) == bench.cluster.names(POD) == []
    assert "CleanupFailed" in bench.events()


async def test_a_job_that_cannot_be_deleted_for_a_known_cause_says_so_and_waits(bench: Bench, fickle: Fickle) -> None:
    await running(bench)
    fickle.error = Refused("no rights")
    await try_to_delete(bench, 20)
    assert bench.cluster.names(STREAM_JOB) == [NAME]
    assert bench.condition("Ready")["message"].startswith("no rights; to let it go without, take its finalizer off")


async def test_a_status_that_cannot_be_read_is_told_beside_it_and_does_not_outlive_its_job(bench: Bench) -> None:
    await running(bench)
    broken = bench.job["status"] | {"lifecycleState": "DANCING"}
    bench.cluster.edit(STREAM_JOB, NAMESPACE, NAME, status=broken)
    with pytest.raises(ValueError):
        await bench.jobs.reconcile(NAMESPACE, NAME)
    assert "lifecycleState" in bench.condition("Ready")["message"]
    assert bench.job["status"]["jobStatus"] == broken["jobStatus"]
    await try_to_delete(bench, 20)
    assert bench.cluster.names(STREAM_JOB) == []


async def test_a_snapshot_that_cannot_be_read_says_so_and_can_be_deleted(bench: Bench) -> None:
    thing = snapshot("odd")
    thing["metadata"]["finalizers"] = ["streamjob.io/finalizer"]
    thing["spec"]["backoffLimit"] = "often"
    await bench.cluster.create(STREAM_SNAPSHOT, thing)
    with pytest.raises(ValueError):
        await bench.snapshots.reconcile(NAMESPACE, "odd")
    (ready, _) = bench.cluster.objects[(STREAM_SNAPSHOT, NAMESPACE, "odd")]["status"]["conditions"]
    assert ready["reason"] == "ReconcileFailed"
    assert "backoffLimit" in ready["message"]
    await bench.cluster.delete(STREAM_SNAPSHOT, NAMESPACE, "odd")
    for _ in range(20):
        if bench.cluster.names(STREAM_SNAPSHOT):
            with pytest.raises(ValueError):
                await bench.snapshots.reconcile(NAMESPACE, "odd")
    assert bench.cluster.names(STREAM_SNAPSHOT) == []


async def test_a_job_that_is_deleted_disposes_of_its_checkpoints_although_its_spec_became_invalid(bench: Bench) -> None:
    await running(bench)
    invalid = SPEC | {"deletionPolicy": "Delete", "job": job_with(sql="SELEC value")}
    bench.cluster.edit(STREAM_JOB, NAMESPACE, NAME, spec=invalid)
    await bench.step()
    await bench.cluster.delete(STREAM_JOB, NAMESPACE, NAME)
    await bench.until(lambda: not bench.cluster.names(STREAM_JOB))
    assert {key.partition("/")[0] for key in bench.job_store.objects()} == {"log", "log-copies"}
