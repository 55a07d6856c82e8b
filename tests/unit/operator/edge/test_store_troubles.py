"""A store that refuses the controller: its reason and event, and a job that continues once that is put right."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.unit.operator.edge.bench import NAME, NAMESPACE, Bench, a_job, running

from streamjob.store.base import (
    AccessDenied,
    BucketMissing,
    CredentialsExpired,
    CredentialsRejected,
    Store,
    StoreDenied,
    StoreError,
    StoreUnavailable,
)
from streamjob_operator.cluster.api import Refused
from streamjob_operator.cluster.kinds import EVENT, POD, SECRET, STREAM_JOB, STREAM_SNAPSHOT, Object
from streamjob_operator.storage.job_stores import SecretMissing

WITH_SECRET = {"storage": {"credentialsSecretRef": {"name": "keys"}}}


class RefusingBench(Bench):
    """A controller whose stores raise an error as long as there is one."""

    refusal: StoreError | None = None

    def _open(self, uri: str, environment: Mapping[str, str]) -> Store:
        if self.refusal is not None:
            raise self.refusal
        return super()._open(uri, environment)


@pytest.fixture
def bench(tmp_path: Path) -> RefusingBench:
    return RefusingBench(tmp_path)


def secret() -> Object:
    data = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), base64.b64encode(b"x").decode())
    return {"metadata": {"namespace": NAMESPACE, "name": "keys"}, "data": data}


def warnings(bench: Bench) -> dict[str, str]:
    """Return the messages of the warnings by reason."""
    found = [thing for (kind, _, _), thing in bench.cluster.objects.items() if kind == EVENT]
    return {each["reason"]: each["message"] for each in found if each["type"] == "Warning"}


REFUSALS = [
    (CredentialsRejected, "CredentialsRejected"),
    (CredentialsExpired, "CredentialsExpired"),
    (BucketMissing, "BucketMissing"),
    (AccessDenied, "AccessDenied"),
    (StoreDenied, "StoreDenied"),
    (StoreUnavailable, "StoreUnreachable"),
]


@pytest.mark.parametrize(("kind", "reason"), REFUSALS, ids=[reason for _, reason in REFUSALS])
async def test_a_refusal_is_told_by_its_reason_at_the_first_look_and_the_job_starts_once_it_is_gone(
    bench: RefusingBench, kind: type[StoreError], reason: str
) -> None:
    bench.refusal = kind("cannot list s3://bucket/snapshots at there")
    await bench.cluster.create(STREAM_JOB, a_job())
    for _ in range(4):
        await bench.step()
    told = bench.condition("StoreInReach")
    assert (told["status"], told["reason"]) == ("False", reason)
    assert told["message"] == "cannot list s3://bucket/snapshots at there"
    assert warnings(bench) == {reason: told["message"]}
    assert bench.condition("Ready")["reason"] == reason
    assert told["message"] in bench.condition("Ready")["message"]
    bench.refusal = None
    await bench.until(lambda: bench.lifecycle == "DEPLOYED")
    assert bench.condition("StoreInReach")["status"] == "True"


async def test_one_refusal_after_another_has_its_own_event(bench: RefusingBench) -> None:
    await bench.cluster.create(STREAM_JOB, a_job())
    for kind in (CredentialsRejected, BucketMissing):
        bench.refusal = kind("refused")
        for _ in range(4):
            await bench.step()
    assert warnings(bench).keys() == {"CredentialsRejected", "BucketMissing"}


async def test_a_missing_secret_is_told_before_the_first_start_and_while_the_job_runs(bench: Bench) -> None:
    await bench.cluster.create(STREAM_JOB, a_job(**WITH_SECRET))
    for _ in range(4):
        await bench.step()
    told = bench.condition("StoreInReach")
    assert (told["status"], told["reason"]) == ("False", "SecretMissing")
    assert f"there is no Secret keys in namespace {NAMESPACE}" in told["message"]
    assert "SecretMissing" in warnings(bench)

    await bench.cluster.create(SECRET, secret())
    await bench.until(lambda: bench.lifecycle == "DEPLOYED")
    assert bench.driver is not None
    bench.driver.checkpoint(bench.now)
    await bench.until(lambda: bench.lifecycle == "STABLE")
    assert bench.condition("StoreInReach")["status"] == "True"

    await bench.cluster.delete(SECRET, NAMESPACE, "keys")
    bench.now += 61
    await bench.step()
    assert bench.condition("StoreInReach")["reason"] == "SecretMissing"
    assert (bench.lifecycle, bench.condition("Ready")["status"]) == ("STABLE", "True")
    await bench.cluster.create(SECRET, secret())
    await bench.step()
    assert bench.condition("StoreInReach")["reason"] == "InReach"


async def test_a_store_that_refused_is_asked_again_also_while_the_driver_tells_the_log(bench: RefusingBench) -> None:
    await running(bench)
    bench.refusal = CredentialsExpired("expired")
    await bench.step()
    assert bench.condition("StoreInReach")["status"] == "True"
    for name in bench.cluster.names(POD):
        await bench.cluster.delete(POD, NAMESPACE, name)
    await bench.until(lambda: bench.lifecycle == "DEPLOYING")
    await bench.until(lambda: bench.lifecycle == "STABLE")
    assert bench.condition("StoreInReach")["reason"] == "CredentialsExpired"
    assert bench.driver is not None
    bench.driver.checkpoint(bench.now)
    await bench.step()
    assert bench.condition("StoreInReach")["reason"] == "CredentialsExpired"
    bench.refusal = None
    await bench.step()
    assert bench.condition("StoreInReach")["reason"] == "InReach"


async def test_a_namespace_whose_secret_is_deleted_first_goes_and_the_files_stay(
    bench: RefusingBench, caplog: pytest.LogCaptureFixture
) -> None:
    snapshot = {
        "apiVersion": "streamjob.io/v1alpha1",
        "kind": "StreamSnapshot",
        "metadata": {"namespace": NAMESPACE, "name": "one"},
        "spec": {"jobRef": {"name": NAME}, "savepoint": {"disposeOnDelete": True}},
    }

    await bench.cluster.create(SECRET, secret())
    await running(bench, deletionPolicy="Delete", **WITH_SECRET)
    await bench.cluster.create(STREAM_SNAPSHOT, snapshot)
    one = STREAM_SNAPSHOT, NAMESPACE, "one"
    await bench.until(lambda: bench.cluster.objects[one].get("status", {}).get("state") == "Completed")
    before = bench.job_store.objects()

    await bench.cluster.delete(SECRET, NAMESPACE, "keys")
    bench.now += 61
    for kind, name in ((STREAM_JOB, NAME), (STREAM_SNAPSHOT, "one")):
        await bench.cluster.delete(kind, NAMESPACE, name)
    for name in bench.cluster.names(POD):
        await bench.cluster.delete(POD, NAMESPACE, name)
    bench.cluster.rejection = lambda kind, thing: Refused("the namespace is being terminated")
    began = bench.now
    while {STREAM_JOB, STREAM_SNAPSHOT} & {kind for kind, _, _ in bench.cluster.objects}:
        assert bench.now < began + 120
        try:
            await bench.step()
        except SecretMissing:
            bench.now += 5
    assert bench.job_store.objects() == before
    for place in (f"kept at s3://bucket/snapshots/{NAMESPACE}/{NAME}/", "s3://bucket/snapshots/savepoints/"):
        assert any("there is no Secret keys" in each and place in each for each in caplog.messages)
