"""A job's file that is on S3 comes to where the job starts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.servers.s3 import S3Server

from streamjob.ids import Key
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
