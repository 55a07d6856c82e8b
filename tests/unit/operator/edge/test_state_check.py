"""Which state a changed spec is compared with."""

from __future__ import annotations

from tests.unit.operator.edge.bench import NAME, NAMESPACE, SPEC, Bench, a_job

from streamjob_operator.cluster.kinds import STREAM_JOB

OTHER_GRAPH = {"operators": [{"name": "numbers", "uid": "numbers"}]}
"""A source of the job is an operator there."""


async def test_a_failed_job_is_redeployed_whatever_its_last_state_is(bench: Bench) -> None:
    never = {"restartPolicy": {"type": "Never"}}

    bench.job_store.graph = OTHER_GRAPH
    await bench.cluster.create(STREAM_JOB, a_job(**never))
    await bench.until(lambda: bench.lifecycle == "DEPLOYED")
    assert bench.driver is not None
    bench.driver.checkpoint(bench.now)
    await bench.until(lambda: bench.lifecycle == "STABLE")
    path = str(bench.job["status"]["checkpoint"]["lastCompleted"]["path"])
    bench.driver.stopped = True
    await bench.until(lambda: bench.lifecycle == "FAILED")

    changed = {**SPEC["job"], "parallelism": 3}
    elsewhere = {"job": changed, "initialSavepointPath": path, "savepointRedeployNonce": 1}
    bench.cluster.edit(STREAM_JOB, NAMESPACE, NAME, spec=SPEC | never | elsewhere)
    await bench.until(lambda: bench.lifecycle != "FAILED", rounds=10)
    assert bench.job["status"]["reconciliation"]["restore"]["source"].endswith("manifest.json")
