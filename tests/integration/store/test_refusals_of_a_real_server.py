"""The controller says why a real S3 server refuses it."""

from __future__ import annotations

import asyncio
import base64

import pytest
from tests.servers.s3 import S3Server
from tests.unit.operator.edge.fake_cluster import FakeCluster

from streamjob.errors import StreamJobError
from streamjob_operator.cluster.kinds import SECRET
from streamjob_operator.decisions.observation import StoreProblem, StoreTrouble
from streamjob_operator.resources.base import Reference
from streamjob_operator.resources.parts import Storage
from streamjob_operator.storage.job_stores import JobStores, trouble_of

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
