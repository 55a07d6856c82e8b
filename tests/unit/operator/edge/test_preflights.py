"""A preflight, through the controller's edge: its pod is made, read, and removed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.operator.edge.bench import NAME, NAMESPACE, SPEC, Bench, a_job

from streamjob_operator.cluster.kinds import POD, STREAM_JOB


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def test_what_a_preflight_finds_is_told_and_the_driver_runs_on_until_another_one_passes(bench: Bench) -> None:
    await bench.cluster.create(STREAM_JOB, a_job())
    await bench.until(lambda: bench.lifecycle == "DEPLOYED")
    driver = f"{NAME}-driver-{bench.job['status']['jobStatus']['attempt']}"
    said = {"state": "FAILED", "message": "operator 'clean': SELEC is no query", "exitCode": 2}
    bench.preflight = {"exitCode": 2, "message": json.dumps(said)}
    bench.cluster.edit(STREAM_JOB, NAMESPACE, NAME, spec=SPEC | {"image": "example/wrong"})
    await bench.until(lambda: "PreflightFailed" in bench.events())

    found = bench.condition("PreflightPassed")
    assert (found["status"], found["reason"]) == ("False", "PreflightFailed")
    assert "SELEC is no query" in found["message"]
    assert bench.condition("Stalled")["reason"] == "PreflightFailed"
    for _ in range(5):
        await bench.step()
    assert sorted(bench.cluster.names(POD)) == [driver, f"{NAME}-preflight-1"]

    told = {"state": "FINISHED", "message": "operator 'clean' is migrated: its column n is total now", "exitCode": 0}
    bench.preflight = {"exitCode": 0, "message": json.dumps(told)}
    bench.cluster.edit(STREAM_JOB, NAMESPACE, NAME, spec=SPEC | {"image": "example/right"})
    await bench.until(lambda: driver not in bench.cluster.names(POD) and bench.lifecycle == "DEPLOYED")
    await bench.step()

    passed = bench.condition("PreflightPassed")
    assert (passed["status"], passed["message"]) == ("True", told["message"])
    assert not [name for name in bench.cluster.names(POD) if "preflight" in name]


async def test_a_job_that_is_deleted_without_its_objects_leaves_no_pod_of_a_preflight(bench: Bench) -> None:
    await bench.cluster.create(STREAM_JOB, a_job())
    await bench.until(lambda: bench.lifecycle == "DEPLOYED")
    (driver,) = bench.cluster.names(POD)
    bench.preflight = {"exitCode": 2, "message": "wrong"}
    bench.cluster.edit(STREAM_JOB, NAMESPACE, NAME, spec=SPEC | {"image": "example/wrong"})
    await bench.until(lambda: "PreflightFailed" in bench.events())
    meta = bench.job["metadata"]
    bench.cluster.edit(STREAM_JOB, NAMESPACE, NAME, metadata=meta | {"finalizers": ["orphan", *meta["finalizers"]]})
    await bench.cluster.delete(STREAM_JOB, NAMESPACE, NAME)
    await bench.until(lambda: bench.job["metadata"]["finalizers"] == ["orphan"])

    assert bench.cluster.names(POD) == [driver]


async def test_a_controller_that_dies_during_a_preflight_is_continued_by_the_next_one(
    tmp_path: Path, bench: Bench
) -> None:
    await bench.cluster.create(STREAM_JOB, a_job())
    await bench.until(lambda: bench.lifecycle == "DEPLOYED")
    bench.cluster.edit(STREAM_JOB, NAMESPACE, NAME, spec=SPEC | {"image": "example/two"})
    await bench.until(lambda: f"{NAME}-preflight-1" in bench.cluster.names(POD))

    after = Bench(tmp_path, before=bench)
    await after.until(lambda: after.lifecycle == "UPGRADING")

    assert after.job["status"]["reconciliation"]["preflight"]["number"] == 1
    assert after.condition("PreflightPassed")["status"] == "True"
