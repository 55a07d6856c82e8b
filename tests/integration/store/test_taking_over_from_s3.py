"""The checkpoint of a plain query in S3: what can be taken over from there, and what is said of a place that cannot."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from tests.servers.process import LOOPBACK, free_port
from tests.servers.s3 import S3Server
from tests.unit.runtime.plain_queries import Query, Taker
from typer.testing import CliRunner

from streamjob.cli.main import app
from streamjob.store import BucketMissing, CredentialsRejected, LocalStore, StoreUnavailable
from streamjob.store.opening import open_location
from streamjob_runtime.restoring.from_spark.errors import NoQueryThere

pytestmark = pytest.mark.server
pytest.importorskip("pyarrow")


@pytest.fixture
def taker(tmp_path: Path) -> Taker:
    (tmp_path / "job").mkdir()
    return Taker(tmp_path / "job")


@pytest.fixture
def place(tmp_path: Path, s3_server: S3Server, s3_credentials: None) -> str:
    """Return where the checkpoint of a query is in S3, with the objects that Hadoop makes for directories."""
    location = f"s3://{s3_server.bucket}/queries/{uuid.uuid4().hex}"
    source, target = LocalStore(Query(tmp_path / "query").make().root), open_location(location).store()
    for entry in source.list(""):
        target.put(entry.key, source.get(entry.key))
    target.close()
    return location


def check(taker: Taker, place: str) -> Any:
    taker.loaded()
    arguments = ["check", str(taker.directory / "job.yaml"), "--from", f"spark:{place}", "--no-spark", "--json"]
    return CliRunner().invoke(app, arguments)


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_a_query_is_checked_and_taken_over_from_s3(place: str, taker: Taker, scheme: str) -> None:
    named = place.replace("s3:", f"{scheme}:", 1)

    checked = check(taker, named)
    manifest = taker.take(named)

    assert checked.exit_code == 0, checked.output
    assert [json.loads(line)["verdict"] for line in checked.stdout.splitlines()] == ["restored"] * 3 + ["new"]
    assert manifest.graph["takenFrom"] == f"spark:{place}/"
    assert "state/0/1/SSTs/3.sst" in {file.path for file in manifest.chains[0].files}


def test_an_empty_prefix_and_a_missing_bucket_are_refused(s3_server: S3Server, place: str, taker: Taker) -> None:
    with pytest.raises(NoQueryThere, match=f"There is nothing at {place}/none/"):
        taker.take(f"{place}/none")
    with pytest.raises(BucketMissing, match="the bucket nowhere does not exist at") as error:
        taker.take("s3://nowhere/query")
    assert "create it" in error.value.fix
    assert check(taker, "s3://nowhere/query").exit_code == 5
    assert not (taker.directory / "root").exists()


@pytest.mark.usefixtures("checks_credentials")
def test_wrong_credentials_are_refused(place: str, taker: Taker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")

    with pytest.raises(CredentialsRejected, match=f"cannot list {place}/") as error:
        taker.take(place)
    assert "AWS_SECRET_ACCESS_KEY" in error.value.fix


def test_a_server_that_does_not_answer_is_named(place: str, taker: Taker, monkeypatch: pytest.MonkeyPatch) -> None:
    away = f"http://{LOOPBACK}:{free_port()}"
    monkeypatch.setenv("AWS_ENDPOINT_URL", away)

    with pytest.raises(StoreUnavailable, match=f"cannot list {place}/ at {away}"):
        taker.take(place)
    done = check(taker, place)
    assert (done.exit_code, done.stdout) == (5, "")
