"""The files of savepoints that the controller took by itself."""

from __future__ import annotations

from tests.unit.operator.edge.bench import NAME, NAMESPACE, Bench, a_job

from streamjob_operator.cluster.kinds import STREAM_JOB, STREAM_SNAPSHOT


def manifests(bench: Bench) -> set[str]:
    """Return the savepoints that are complete in the store."""
    savepoints = bench.root / "bucket" / "snapshots" / "savepoints"
    return {manifest.parent.name for manifest in savepoints.glob("*/manifest.json")}


def completed(bench: Bench) -> list[str]:
    """Return the names of the complete StreamSnapshots, the oldest first."""
    return [
        name
        for name in bench.cluster.names(STREAM_SNAPSHOT)
        if bench.cluster.objects[(STREAM_SNAPSHOT, NAMESPACE, name)].get("status", {}).get("state") == "Completed"
    ]


async def take_two(bench: Bench) -> str:
    """Run the job until its schedule has taken two savepoints, and return the name of the first."""
    await bench.cluster.create(STREAM_JOB, a_job(savepoints={"schedule": "1m", "retention": {"maxCount": 1}}))
    await bench.until(lambda: len(completed(bench)) == 1, rounds=200)
    (first,) = completed(bench)
    await bench.until(lambda: any(name > first for name in completed(bench)), rounds=200)
    return first


async def test_a_savepoint_that_need_not_be_kept_any_longer_leaves_no_files(bench: Bench) -> None:
    first = await take_two(bench)
    await bench.until(lambda: first not in bench.cluster.names(STREAM_SNAPSHOT), rounds=5)
    assert len(manifests(bench)) == len(completed(bench)) == 1


async def test_a_savepoint_of_the_schedule_that_a_person_deletes_keeps_its_files(bench: Bench) -> None:
    await bench.cluster.create(STREAM_JOB, a_job(savepoints={"schedule": "1m"}))
    await bench.until(lambda: len(completed(bench)) == 1, rounds=200)
    (only,) = completed(bench)
    await bench.cluster.delete(STREAM_SNAPSHOT, NAMESPACE, only)
    for _ in range(3):
        await bench.step()
    assert len(manifests(bench)) >= 1


async def test_savepoints_of_upgrades_are_kept_as_retention_says(bench: Bench) -> None:
    async def upgraded(image: str) -> None:
        attempt = bench.job["status"]["jobStatus"]["attempt"]
        bench.cluster.edit(STREAM_JOB, NAMESPACE, NAME, spec=bench.job["spec"] | {"image": image})
        await bench.until(lambda: bench.job["status"]["jobStatus"]["attempt"] > attempt)
        await bench.until(lambda: bench.lifecycle == "DEPLOYED")
        assert bench.driver is not None
        bench.driver.checkpoint(bench.now)
        await bench.until(lambda: bench.lifecycle == "STABLE")

    await bench.cluster.create(STREAM_JOB, a_job(savepoints={"retention": {"maxCount": 1}}))
    await bench.until(lambda: bench.lifecycle == "DEPLOYED")
    await upgraded("example/two")
    (first,) = completed(bench)
    reference = bench.job["status"]["savepoint"]["upgradeSnapshotReference"]
    recorded = bench.cluster.objects[(STREAM_SNAPSHOT, NAMESPACE, first)]
    assert reference == {"name": first, "path": recorded["status"]["path"]}
    assert recorded["metadata"]["labels"]["streamjob.io/origin"] == "upgrade"

    bench.now += 60
    await upgraded("example/three")
    await bench.until(lambda: first not in bench.cluster.names(STREAM_SNAPSHOT))
    (kept,) = completed(bench)
    assert kept == bench.job["status"]["savepoint"]["upgradeSnapshotReference"]["name"]
    assert len(manifests(bench)) == 1
