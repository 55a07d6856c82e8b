"""Connectors: whose jars a job needs, where they are found, and what is done where they are not."""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.jobs import job_spec, sink, source

from streamjob_runtime.spark import holder
from streamjob_runtime.spark.connectors import __main__ as command
from streamjob_runtime.spark.connectors import fetching, finding
from streamjob_runtime.spark.connectors.__main__ import main
from streamjob_runtime.spark.connectors.artifacts import KAFKA, Artifact, read_pins
from streamjob_runtime.spark.connectors.fetching import CannotFetch, Repositories, fetch
from streamjob_runtime.spark.holder import SparkHolder
from streamjob_runtime.spark.session import SessionSettings

CONTENT = b"the bytes of a jar"
ONE = Artifact("org.example", "one", "1.0", hashlib.sha256(CONTENT).hexdigest())


class Ivy:
    """Replaces Ivy: writes the content of a repository, or fails with Ivy's output."""

    def __init__(self, files: Mapping[str, bytes], output: str = "") -> None:
        self.files = files
        self.output = output
        self.asked: list[str] = []
        self.settings = ""

    def run(self, command: Sequence[str], **_: Any) -> subprocess.CompletedProcess[str]:
        if "-retrieve" not in command:
            return subprocess.CompletedProcess(command, 0, "", 'openjdk version "17.0.1"')
        scratch = Path(command[command.index("-retrieve") + 1]).parent
        self.asked.append(Path(command[command.index("-ivy") + 1]).read_text())
        self.settings = Path(command[command.index("-settings") + 1]).read_text()
        for name, content in self.files.items():
            (scratch / name).write_bytes(content)
        return subprocess.CompletedProcess(command, 1 if self.output else 0, self.output, "")


@pytest.fixture
def ivy(monkeypatch: pytest.MonkeyPatch) -> Ivy:
    stand_in = Ivy({ONE.file: CONTENT})
    monkeypatch.setattr(subprocess, "run", stand_in.run)
    return stand_in


def test_what_is_fetched_is_kept_under_its_name_and_nothing_else(ivy: Ivy, tmp_path: Path) -> None:
    fetch([ONE], tmp_path / "cache", {}, Repositories())

    assert [file.name for file in (tmp_path / "cache").iterdir()] == ["one-1.0.jar"]
    assert (tmp_path / "cache" / "one-1.0.jar").read_bytes() == CONTENT


def test_a_fetch_is_told_and_what_is_there_is_not_fetched_again(
    ivy: Ivy, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "streamjob"):
        fetch([ONE], tmp_path, {}, Repositories())
        fetch([ONE], tmp_path, {}, Repositories())

    assert caplog.messages == [f"Fetching one-1.0.jar into {tmp_path}: this is done once"]
    assert len(ivy.asked) == 1


def test_a_damaged_file_is_fetched_again(ivy: Ivy, tmp_path: Path) -> None:
    (tmp_path / ONE.file).write_bytes(CONTENT[:5])

    fetch([ONE], tmp_path, {}, Repositories())

    assert (tmp_path / ONE.file).read_bytes() == CONTENT


def test_a_file_with_another_hash_is_refused_and_not_kept(ivy: Ivy, tmp_path: Path) -> None:
    ivy.files = {ONE.file: b"something else"}

    with pytest.raises(CannotFetch, match="another hash"):
        fetch([ONE], tmp_path, {}, Repositories())

    assert list(tmp_path.iterdir()) == []


def test_without_a_network_the_error_names_the_files_the_directory_and_the_variable(ivy: Ivy, tmp_path: Path) -> None:
    ivy.files = {}
    ivy.output = "WARNINGS\n  module not found: x\nERRORS\n  Server access error (java.net.ConnectException: refused)"

    with pytest.raises(CannotFetch) as error:
        fetch([ONE], tmp_path, {}, Repositories())

    assert "org.example:one:1.0 (Server access error (java.net.ConnectException: refused))" in error.value.what
    assert all(part in error.value.fix for part in ("one-1.0.jar", str(tmp_path), "STREAMJOB_CONNECTORS_DIR"))


def test_a_directory_that_cannot_be_written_is_named(ivy: Ivy, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(CannotFetch, match=r"Not a directory|File exists"):
        fetch([ONE], tmp_path / "file" / "cache", {}, Repositories())


def test_repositories_of_a_job_are_asked_as_well_and_its_ivy_settings_decide_alone(ivy: Ivy, tmp_path: Path) -> None:
    own = tmp_path / "ivysettings.xml"
    own.write_text("<ivysettings/>")

    fetch([ONE], tmp_path / "a", {}, Repositories.of({"spark.jars.repositories": "https://one.example, file:///b"}))
    both = ivy.settings
    fetch([ONE], tmp_path / "b", {}, Repositories.of({"spark.jars.ivySettings": str(own)}))

    assert 'root="https://one.example"' in both
    assert 'root="file:///b"' in both
    assert ivy.settings == "<ivysettings/>"


def test_connectors_of_the_installation_are_found_first(
    ivy: Ivy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finding, "CONNECTORS", {"kafka": (ONE,)})
    monkeypatch.setattr(finding, "installed_directory", lambda: tmp_path / "installed")
    cached = finding.jars("kafka", {"STREAMJOB_CONNECTORS_DIR": str(tmp_path / "cache")})
    fetch([ONE], tmp_path / "installed", {}, Repositories())
    installed = finding.jars("kafka", {"STREAMJOB_CONNECTORS_DIR": str(tmp_path / "cache")})

    assert cached == [tmp_path / "cache" / ONE.file]
    assert installed == [tmp_path / "installed" / ONE.file]


@pytest.mark.parametrize(
    ("environment", "directory"),
    [
        ({"STREAMJOB_CONNECTORS_DIR": "/jars", "XDG_CACHE_HOME": "/cache"}, "/jars"),
        ({"XDG_CACHE_HOME": "/cache"}, "/cache/streamjob/connectors"),
        ({}, str(Path.home() / ".cache/streamjob/connectors")),
    ],
)
def test_the_cache_is_where_the_environment_says(environment: Mapping[str, str], directory: str) -> None:
    assert finding.cache_directory(environment) == Path(directory)


@pytest.mark.parametrize(
    ("read", "written", "conf", "connectors"),
    [
        ("kafka", "console", {}, ("kafka",)),
        ("rate", "kafka", {}, ("kafka",)),
        ("rate", "console", {}, ()),
        ("kafka", "kafka", {"spark.jars.packages": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0"}, ()),
        ("kafka", "kafka", {"spark.jars": "/jars/spark-sql-kafka-0-10_2.13-4.3.0.jar"}, ()),
        ("kafka", "kafka", {"spark.jars": "/jars/mine.jar"}, ("kafka",)),
    ],
)
def test_a_job_needs_the_connectors_of_its_formats_that_it_does_not_bring(
    read: str, written: str, conf: Mapping[str, str], connectors: tuple[str, ...]
) -> None:
    spec = job_spec(sources=[source("in", read)], sinks=[sink("in", written)], sparkConf=conf)

    assert finding.needed(spec, {}) == connectors


BUCKET = "s3://lake/in"


@pytest.mark.parametrize(
    ("read", "written", "conf", "connectors"),
    [
        (source("in", "json", "id INT", BUCKET), sink("in"), {}, ("s3a",)),
        (source("in", "avro", "id INT", "S3A://lake/in"), sink("in"), {}, ("s3a",)),
        (source("in", "json", "id INT", "${env:PLACE}/in"), sink("in"), {}, ("s3a",)),
        (source("in", "json", "id INT", "${env:MISSING}/in"), sink("in"), {}, ()),
        (source("in", "json", "id INT", "in/s3://lake"), sink("in"), {}, ()),
        (source("in"), sink("in", "json", BUCKET), {}, ()),
        (source("in"), sink("in", "json", BUCKET, delivery="at-least-once"), {}, ("s3a",)),
        (source("in", "json", "id INT", BUCKET), sink("in"), {"spark.jars.packages": "x:hadoop-aws:3.5.0"}, ()),
    ],
)
def test_a_job_needs_the_reader_of_buckets_where_spark_itself_reaches_one(
    read: dict[str, Any], written: dict[str, Any], conf: Mapping[str, str], connectors: tuple[str, ...]
) -> None:
    spec = job_spec(sources=[read], sinks=[written], sparkConf=conf)

    assert finding.needed(spec, {"PLACE": "s3://lake"}) == connectors


@pytest.mark.parametrize(
    ("warehouse", "connectors"),
    [
        ("s3://lake/warehouse", ("s3a",)),
        ("${env:PLACE}/warehouse", ("s3a",)),
        ("name of a catalog's", ("s3a",)),
        (None, ("s3a",)),
        ("/data/warehouse", ()),
        ("file:///data/warehouse", ()),
        ("gs://lake/warehouse", ()),
    ],
)
def test_an_iceberg_table_is_read_from_a_bucket_unless_its_warehouse_is_elsewhere(
    warehouse: str | None, connectors: tuple[str, ...]
) -> None:
    options = {"table": "n.t", **({} if warehouse is None else {"catalog.warehouse": warehouse})}
    spec = job_spec(sources=[{"name": "in", "format": "iceberg", "options": options}], sinks=[sink("in")])

    assert finding.needed(spec, {"PLACE": "s3://lake"}) == connectors


def test_spark_reaches_buckets_as_the_snapshot_store_does_unless_the_job_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://server:9000")
    monkeypatch.delenv("AWS_REGION", raising=False)
    own = {"spark.hadoop.fs.s3a.endpoint.region": "eu-west-1"}
    plain = SessionSettings("job", 1, 1, tmp_path)
    reading = SessionSettings("job", 1, 1, tmp_path, conf=own, connectors=("s3a",))

    settings = {key.removeprefix("spark.hadoop.fs."): value for key, value in reading.spark_conf().items()}

    assert settings["s3.impl"] == settings["s3a.impl"] == "org.apache.hadoop.fs.s3a.S3AFileSystem"
    assert settings["s3a.endpoint"] == "http://server:9000"
    assert settings["s3a.path.style.access"] == "true"
    assert settings["s3a.endpoint.region"] == "eu-west-1"
    assert not [key for key in plain.spark_conf() if ".fs.s3" in key]


def test_a_connector_beside_sparks_own_jars_is_taken_for_the_jobs_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = tmp_path / "jars" / "spark-sql-kafka-0-10_2.13-4.3.0.jar"
    beside.parent.mkdir()
    beside.write_bytes(CONTENT)
    spec = job_spec(sources=[source("in", "kafka")])
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: SimpleNamespace(origin=str(tmp_path / "__init__.py")))

    assert finding.needed(spec, {}) == ()
    beside.unlink()
    assert finding.needed(spec, {}) == ("kafka",)


def test_the_command_refuses_a_connector_that_it_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["pulsar"])

    assert ended.value.code == 2
    assert "usage" in capsys.readouterr().err


def test_the_command_fetches_a_connector_into_the_directory_that_it_is_given(
    ivy: Ivy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "CONNECTORS", {"kafka": (ONE,)})

    assert main(["kafka", str(tmp_path / "jars")]) == 0
    assert (tmp_path / "jars" / ONE.file).read_bytes() == CONTENT

    ivy.files = {}
    assert main(["kafka", str(tmp_path / "none")]) == 2
    assert ONE.file in capsys.readouterr().err


def test_pins_name_a_hash_for_each_jar() -> None:
    assert len(KAFKA) == 4
    assert all(len(each.sha256) == 64 for each in KAFKA)
    assert read_pins("a:b:1 00\n\n") == (Artifact("a", "b", "1", "00"),)


def test_ivy_is_among_the_jars_of_spark() -> None:
    assert fetching.spark_jars("ivy-*.jar")


def test_a_fetch_is_told_before_the_output_of_spark_goes_to_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = SessionSettings("job", 1, 1, tmp_path, connectors=("kafka",))
    session = SimpleNamespace(conf=SimpleNamespace(set=lambda *_: None))

    def tell(text: str, result: object) -> object:
        os.write(2, text.encode())
        return result

    monkeypatch.setattr(holder, "connector_jars", lambda _: tell("fetching", []))
    monkeypatch.setattr(holder, "start_session", lambda *_: tell("starting", session))
    SparkHolder(settings, tmp_path / "spark.log").session(1)

    assert capfd.readouterr().err == "fetching"
    assert (tmp_path / "spark.log").read_text() == "starting"
