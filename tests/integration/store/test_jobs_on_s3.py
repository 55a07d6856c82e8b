"""A job's file on S3 comes to where the job starts, and `streamjob snapshots inspect` reads state there."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path

import pytest
from tests.servers.s3 import S3Server
from tests.unit.stored.job import Job
from tests.unit.stored.states import join, with_state
from typer.testing import CliRunner

from streamjob.cli.main import app
from streamjob.ids import Key
from streamjob.store import LocalStore
from streamjob.store.opening import open_location
from streamjob_runtime.process.fetch import fetch, main

pytestmark = pytest.mark.server


def test_an_application_is_fetched_by_its_uri(tmp_path: Path, s3_server: S3Server, s3_credentials: None) -> None:
    store = open_location(f"s3://{s3_server.bucket}/code").store()
    store.put(Key("shop/job.py"), b"job = 1")
    store.close()

    found = fetch(f"s3://{s3_server.bucket}/code/shop/job.py", tmp_path / "made" / "code", os.environ)

    assert found == tmp_path / "made" / "code" / "job.py"
    assert found.read_bytes() == b"job = 1"


def test_an_application_that_is_not_there_is_named(
    tmp_path: Path, s3_server: S3Server, s3_credentials: None, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main([f"s3://{s3_server.bucket}/code/missing.py", str(tmp_path)])

    assert code != 0
    assert "missing.py" in capsys.readouterr().err


def test_state_stores_are_shown_from_s3(tmp_path: Path, s3_server: S3Server, s3_credentials: None) -> None:
    job = Job(tmp_path)
    with_state(job, 1, join())
    location = f"s3://{s3_server.bucket}/snapshots/{uuid.uuid4().hex}"
    source, target = LocalStore(tmp_path), open_location(location).store()
    for entry in source.list(""):
        target.put(entry.key, source.get(entry.key))
    for place in ([location], [f"{location}/default/departures/checkpoints/1-1/manifest.json"]):
        result = CliRunner().invoke(app, ["snapshots", "inspect", *place, "--json"])

        assert result.exit_code == 0, result.output
        (operator,) = json.loads(result.stdout)["state"]
        assert [(store["name"], store["bytes"]) for store in operator["stores"]] == [
            ("left-keys", 8),
            ("right-keys", 10),
        ]
    assert {entry.key for entry in target.list("")} == {entry.key for entry in source.list("")}
    target.close()
