"""The controller reports why a real S3 server refuses a request, and a job starts once it is allowed."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest
from tests.servers.s3 import S3Server
from tests.unit.operator.edge.fake_cluster import FakeCluster
from tests.unit.stored.job import Job

from streamjob.errors import ExitCode, StreamJobError
from streamjob.ids import Attempt, Owner
from streamjob.protocol.log.ownership import Identity
from streamjob.protocol.log.records import JobId
from streamjob.store import AccessDenied, LocalStore
from streamjob.store.opening import open_location
from streamjob_operator.cluster.kinds import SECRET
from streamjob_operator.decisions.values.observation import StoreProblem, StoreTrouble
from streamjob_operator.resources.base import Reference
from streamjob_operator.resources.parts import Storage
from streamjob_operator.storage.job_stores import JobStores, trouble_of
from streamjob_runtime.checkpointing.ledger import Ledger, RestoreFrom

pytestmark = [pytest.mark.server, pytest.mark.slow]


def trouble(server: S3Server, access: str, key: str, bucket: str) -> StoreTrouble | None:
    """Return what keeps the controller from reading a log with these keys; None if it can."""
    cluster = FakeCluster()
    keys = {"AWS_ACCESS_KEY_ID": access, "AWS_SECRET_ACCESS_KEY": key}
    data = {name: base64.b64encode(value.encode()).decode() for name, value in keys.items()}
    asyncio.run(cluster.create(SECRET, {"metadata": {"namespace": "a", "name": "keys"}, "data": data}))
    storage = Storage(endpoint=server.endpoint, credentials_secret_ref=Reference(name="keys"))
    try:
        asyncio.run(JobStores(cluster).log("a", "orders", f"s3://{bucket}/snapshots", storage))
    except StreamJobError as error:
        return trouble_of(error)
    return None


def test_wrong_keys_and_a_missing_bucket_are_told_apart(s3_server: S3Server) -> None:
    access, key, bucket = s3_server.access_key, s3_server.secret_key, s3_server.bucket

    assert trouble(s3_server, access, key, bucket) is None
    for wrong in (trouble(s3_server, "nobody", key, bucket), trouble(s3_server, access, "not-the-secret", bucket)):
        assert wrong is not None
        assert wrong.reason is StoreProblem.CREDENTIALS_REJECTED
        assert "not-the-secret" not in wrong.message
    missing = trouble(s3_server, access, key, "no-such-bucket")
    assert missing is not None
    assert missing.reason is StoreProblem.BUCKET_MISSING
    assert "no-such-bucket does not exist" in missing.message


def test_a_job_that_may_not_claim_its_snapshot_starts_once_it_may(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not s3.is_versitygw:
        pytest.skip("moto cannot refuse to write")
    departures = Job(tmp_path / "departures")
    departures.complete(1, *departures.upload(state=b"state"))
    place = open_location(f"s3://{s3.bucket}/departures").store()
    for entry in departures.store.list(""):
        place.put(entry.key, departures.store.get(entry.key))
    place.close()
    mine = LocalStore(tmp_path / "mine")
    wanted = RestoreFrom(snapshot=f"{place.uri}checkpoints/1-1/manifest.json")

    def starts(attempt: int) -> bool:
        identity = Identity(job=JobId("default", "mine"), owner=Owner(f"pod-{attempt}"), attempt=Attempt(attempt))
        ledger = Ledger.claim(mine, identity, lambda: 1_800_000_000.0, 1)
        return ledger.resolve(wanted).manifest is not None

    s3.end()
    monkeypatch.setenv("VGW_READ_ONLY", "true")
    s3.start()
    with pytest.raises(AccessDenied, match="cannot be marked as claimed") as refused:
        starts(1)
    assert refused.value.exit_code is ExitCode.FAILED
    s3.end()
    monkeypatch.delenv("VGW_READ_ONLY")
    s3.start()

    assert starts(2)
