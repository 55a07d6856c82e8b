"""A job whose log is damaged: no driver is started, nothing is deleted, and the resource says why."""

from __future__ import annotations

import time

from tests.unit.operator.edge.bench import NAME, NAMESPACE, Bench, running

from streamjob.ids import LogSeq, Owner
from streamjob.protocol.log.repair import plan_repair, repair
from streamjob.snapshot import keys
from streamjob.store.effects import drive
from streamjob_operator.cluster.kinds import POD, STREAM_JOB

LOST = keys.log_record(LogSeq(2))


async def lose_a_record(bench: Bench) -> None:
    """Let the driver vanish with the record of its newest checkpoint."""
    assert bench.driver is not None
    assert bench.job_store.claim.last_seq == 2
    bench.job_store.path(LOST).unlink()
    for name in bench.cluster.names(POD):
        await bench.cluster.delete(POD, NAMESPACE, name)


async def look(bench: Bench, times: int = 20) -> None:
    for _ in range(times):
        await bench.step()


async def test_no_driver_is_started_until_the_log_is_repaired(bench: Bench) -> None:
    await running(bench)
    await lose_a_record(bench)
    await look(bench)

    assert bench.cluster.names(POD) == []
    told = bench.condition("Reconciling")
    assert told["reason"] == "LogDamaged"
    assert LOST in told["message"]
    assert "streamjob log repair" in told["message"]

    store, job = bench.job_store.store, bench.job_store.job
    drive(store, repair(drive(store, plan_repair(job)), Owner("person"), time.time()))
    await bench.until(lambda: bench.cluster.names(POD) != [])


async def test_the_checkpoints_of_a_deleted_job_stay_until_its_log_is_repaired(bench: Bench) -> None:
    await running(bench, deletionPolicy="Delete")
    await lose_a_record(bench)
    before = bench.job_store.objects()
    await bench.cluster.delete(STREAM_JOB, NAMESPACE, NAME)
    await look(bench)

    assert bench.job_store.objects() == before
    assert LOST in bench.condition("Reconciling")["message"]

    store, job = bench.job_store.store, bench.job_store.job
    drive(store, repair(drive(store, plan_repair(job)), Owner("person"), time.time()))
    await bench.until(lambda: (STREAM_JOB, NAMESPACE, NAME) not in bench.cluster.objects)
    assert not [key for key in bench.job_store.objects() if not key.startswith("log")]
