"""The functions of the guide to foreachBatch change nothing when a call is repeated."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.architecture.documents import blocks
from tests.integration.sinks.databases import Database

from streamjob_runtime.spark.gateway import java_session

pytestmark = pytest.mark.spark

PAGE = "docs/how-to/use-foreach-batch.md"


def function(name: str, **replaced: str) -> Callable[[DataFrame, int], None]:
    """Return a function of the page, with other texts in it."""
    (text,) = (each.text for each in blocks() if each.document == PAGE and f"def {name}(" in each.text)
    for old, new in replaced.items():
        assert old in text
        text = text.replace(old, new)
    found: dict[str, Any] = {}
    exec(compile(text, PAGE, "exec"), found)
    written: Callable[[DataFrame, int], None] = found[name]
    return written


def flights(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(1, "JFK", 3), (2, "LGA", 4)], "id bigint, airport string, flights bigint")


@pytest.mark.server
def test_rows_of_a_database_replace_those_of_the_same_batch(
    spark: SparkSession, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = database.server
    login = f"user={server.role}&password={server.password}"
    monkeypatch.setenv("DATABASE", f"{server.url(database.name)}?{login}")
    database.execute("CREATE TABLE departures (batch_id bigint, airport text, flights bigint)")
    write = function("write")

    for batch_id in (7, 7, 8):
        write(flights(spark), batch_id)

    found = database.execute("SELECT * FROM departures")
    assert sorted(found) == [(7, "JFK", 3), (7, "LGA", 4), (8, "JFK", 3), (8, "LGA", 4)]


class Service(BaseHTTPRequestHandler):
    """A service that does nothing for a key that it has seen."""

    done: dict[str, Any]

    def do_POST(self) -> None:
        content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.done.setdefault(self.headers["Idempotency-Key"], content)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_requests_have_a_key_that_is_the_same_again(spark: SparkSession) -> None:
    done: dict[str, Any] = {}
    with HTTPServer(("127.0.0.1", 0), type("Here", (Service,), {"done": done})) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        send = function("send", **{"https://api.example.com": f"http://127.0.0.1:{server.server_port}"})
        for batch_id in (7, 7, 8):
            send(flights(spark), batch_id)
        server.shutdown()

    assert {key: each["airport"] for key, each in done.items()} == {
        "departures-7-1": "JFK",
        "departures-7-2": "LGA",
        "departures-8-1": "JFK",
        "departures-8-2": "LGA",
    }


def test_an_e_mail_that_was_sent_is_not_sent_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []

    class Server:
        def __init__(self, *_: object, **__: object) -> None:
            pass

        def __enter__(self) -> Server:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def send_message(self, message: Any) -> None:
            if len(sent) == 1 and not tmp_path.joinpath("failed").exists():
                tmp_path.joinpath("failed").touch()
                raise ConnectionResetError
            sent.append(message["Subject"])

    monkeypatch.setattr("smtplib.SMTP", Server)
    warn = function("warn", **{"/data/sent.db": str(tmp_path / "sent.db")})

    with pytest.raises(ConnectionResetError):
        warn(flights(spark), 7)
    for _ in range(2):
        warn(flights(spark), 7)

    assert sorted(sent) == ["Flight 1 is late", "Flight 2 is late"]


def test_the_merge_is_one_that_spark_reads(spark: SparkSession) -> None:
    (text,) = (each.text for each in blocks() if each.document == PAGE and "def upsert(" in each.text)

    java_session(spark).sessionState().sqlParser().parsePlan(text.split('"""')[1])
