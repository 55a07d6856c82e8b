"""A driver that runs on without its StreamJob, and a StreamJob of that name that is applied again."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.operator.edge.bench import LOCATION, NAME, NAMESPACE, Bench, a_job, running

from streamjob_operator.cluster.kinds import POD, STREAM_JOB, Object


async def orphaned(bench: Bench) -> Object:
    """Delete the StreamJob with `--cascade=orphan`, do the garbage collector's part, and return the driver's pod."""
    meta = bench.job["metadata"]
    bench.cluster.edit(STREAM_JOB, NAMESPACE, NAME, metadata=meta | {"finalizers": ["orphan", *meta["finalizers"]]})
    await bench.cluster.delete(STREAM_JOB, NAMESPACE, NAME)
    await bench.until(lambda: bench.job["metadata"]["finalizers"] == ["orphan"])
    for kind, namespace, name in list(bench.cluster.objects):
        meta = bench.cluster.objects[(kind, namespace, name)]["metadata"]
        if meta.pop("ownerReferences", None):
            bench.cluster.edit(kind, namespace, name, metadata=meta)
    await bench.cluster.patch(STREAM_JOB, NAMESPACE, NAME, {"metadata": {"finalizers": None}})
    await bench.step()
    (pod,) = [thing for (kind, _, _), thing in bench.cluster.objects.items() if kind == POD]
    return pod


def applied_again(**spec: object) -> Object:
    """Return the StreamJob under the identity that a second creation gives it."""
    job = a_job(**spec)
    return job | {"metadata": job["metadata"] | {"uid": "another-uid"}}


@pytest.mark.parametrize("suspend", [False, True])
async def test_a_driver_that_was_orphaned_is_taken_over_and_runs_on(bench: Bench, suspend: bool) -> None:
    await running(bench)
    orphan, driver = await orphaned(bench), bench.driver
    await bench.cluster.create(STREAM_JOB, applied_again(suspend=suspend))
    await bench.until(lambda: bench.lifecycle == ("SUSPENDED" if suspend else "STABLE"))

    assert driver is not None
    assert bench.driver is driver
    assert [path for path, _ in driver.asked] == (["/v1/stop"] if suspend else [])
    if not suspend:
        (pod,) = [thing for (kind, _, _), thing in bench.cluster.objects.items() if kind == POD]
        assert pod["metadata"]["uid"] == orphan["metadata"]["uid"]
        assert [owner["uid"] for owner in pod["metadata"]["ownerReferences"]] == ["another-uid"]
        assert pod["metadata"]["labels"]["streamjob.io/uid"] == "another-uid"
    assert "Adopted" in bench.events()

    bench.cluster.edit(STREAM_JOB, NAMESPACE, NAME, spec=a_job(image="example/two")["spec"])
    await bench.until(lambda: bench.driver is not driver)
    assert bench.driver is not None
    assert bench.driver.attempt == driver.attempt + 1


@pytest.mark.parametrize(
    "otherwise",
    ["another revision", "a start from elsewhere", "a newer owner of the log", "two of them", "an owner of its own"],
)
async def test_an_orphaned_driver_that_cannot_go_on_as_it_is_gets_a_successor(bench: Bench, otherwise: str) -> None:
    await running(bench)
    orphan = await orphaned(bench)
    meta, spec = orphan["metadata"], {}
    match otherwise:
        case "another revision":
            spec = {"image": "example/two"}
        case "a start from elsewhere":
            spec = {"initialSavepointPath": f"{LOCATION}/{NAMESPACE}/{NAME}/checkpoints/1-1/manifest.json"}
        case "a newer owner of the log":
            bench.job_store.claim_log(7)
        case "two of them":
            labels = meta["labels"] | {"streamjob.io/attempt": "3"}
            second = meta | {"name": "orders-driver-3", "uid": "second", "labels": labels}
            await bench.cluster.create(POD, orphan | {"metadata": second})
        case _:
            bench.cluster.edit(POD, NAMESPACE, meta["name"], metadata=meta | {"ownerReferences": [{"uid": "x"}]})
    await bench.cluster.create(STREAM_JOB, applied_again(**spec))
    await bench.until(lambda: bench.lifecycle == "DEPLOYED")

    assert bench.driver is not None
    newest = {"a newer owner of the log": 7, "two of them": 3}.get(otherwise, 2)
    assert bench.driver.attempt == newest + 1
    assert "Adopted" not in bench.events()
    assert "another-uid" not in bench.cluster.objects[(POD, NAMESPACE, meta["name"])]["metadata"]["labels"].values()


@pytest.mark.parametrize("image", ["example/one", "example/two"])
async def test_no_number_is_given_twice_where_the_log_cannot_be_read(tmp_path: Path, image: str) -> None:
    bench = Bench(tmp_path, ambient=False)

    await running(bench)
    orphan = await orphaned(bench)
    attempt = int(orphan["metadata"]["labels"]["streamjob.io/attempt"])
    await bench.cluster.create(STREAM_JOB, applied_again(image=image))
    await bench.until(lambda: bench.lifecycle in ("DEPLOYED", "STABLE"))

    assert bench.driver is not None
    assert bench.driver.attempt == attempt + (image != "example/one")
