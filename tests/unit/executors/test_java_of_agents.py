"""An executor's Java is started with what it needs and without a secret, and given up when it ends."""

from __future__ import annotations

import itertools
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from streamjob_runtime.executors.agent.agent import _Over, _watch
from streamjob_runtime.executors.agent.java_process import JavaSettings, arguments, start_java
from streamjob_runtime.executors.build_id import differences
from streamjob_runtime.executors.messages import Welcome
from streamjob_runtime.spark import class_data
from streamjob_runtime.spark.process.java import Java
from streamjob_runtime.spark.session import SessionSettings, SparkExecutors

WELCOME = Welcome(
    executor="7", driver_url="spark://driver", application="app", java_options=("-XX:+UseSerialGC",), store="s3://b/j/"
)
SETTINGS = JavaSettings(Path("/w"), Path("/w/spark"), Path("/w/tmp"), "2g", 3, "10.0.0.1")


def test_an_executor_registers_under_its_number_with_its_cores() -> None:
    made = arguments(SETTINGS, WELCOME, Path("/w/tmp/agent"), {})

    pairs = dict(itertools.pairwise(made))
    assert pairs["--executor-id"] == "7"
    assert pairs["--cores"] == "3"
    assert pairs["--hostname"] == pairs["--bind-address"] == "10.0.0.1"
    assert "-Xmx2g" in made
    assert "-XX:ParallelGCThreads=3" in made
    assert "-XX:+UseSerialGC" in made
    assert "-Dstreamjob.files=/w" in made
    # Otherwise it could not even ask for the driver's settings.
    assert {"-Dspark.authenticate=true", "-Dspark.network.crypto.enabled=true"} <= set(made)


def test_it_runs_in_a_directory_of_its_own_where_no_jar_of_another_release_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "spark"
    scratch.mkdir()
    (scratch / "streamjob-jvm.jar").write_bytes(b"of another release")
    started: list[Path] = []
    found = Java(home=tmp_path / "java", executable=Path("/bin/sh"), version=17)
    monkeypatch.setattr("subprocess.Popen", lambda *_, cwd, **__: started.append(cwd))

    start_java(found, replace(SETTINGS, root=tmp_path, scratch=scratch), WELCOME, "secret", tmp_path / "agent", {})

    assert started == [scratch]
    assert list(scratch.iterdir()) == []


def test_it_uses_the_archive_of_classes_if_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []
    found = Java(home=tmp_path / "java", executable=Path("/bin/sh"), version=17)
    environment = {class_data.DIRECTORY_VARIABLE: str(tmp_path)}
    monkeypatch.setattr("subprocess.Popen", lambda command, **_: started.append(command))
    settings = replace(SETTINGS, root=tmp_path, scratch=tmp_path / "spark")

    start_java(found, settings, WELCOME, "secret", tmp_path / "agent", environment)
    class_data.archive(found, environment).touch()
    start_java(found, settings, WELCOME, "secret", tmp_path / "agent", environment)

    option = f"-XX:SharedArchiveFile={class_data.archive(found, environment)}"
    assert [option in command for command in started] == [False, True]


def test_the_secret_of_sparks_connections_is_in_no_setting() -> None:
    settings = SessionSettings("job", 2, 2, Path("/w"), executors=SparkExecutors(1, "very secret"))

    assert "very secret" not in str(settings.spark_conf())
    assert "very secret" not in repr(settings)


def test_a_job_on_executors_cannot_change_what_its_state_relies_on() -> None:
    conf = {"spark.speculation": "true", "spark.driver.port": "1234"}
    settings = SessionSettings("job", 2, 2, Path("/w"), conf=conf, executors=SparkExecutors(1, "s", "10.0.0.9"))

    made = settings.spark_conf()

    assert settings.master == "local-executors"
    assert made["spark.speculation"] == "false"
    assert made["spark.driver.host"] == "10.0.0.9"
    assert made["spark.driver.port"] == "1234"
    assert made["spark.blockManager.port"] == "7079"


def test_a_job_without_executors_is_computed_in_its_own_process() -> None:
    settings = SessionSettings("job", 3, 4, Path("/w"))

    assert settings.master == "local[3]"
    assert "spark.network.crypto.enabled" not in settings.spark_conf()


@pytest.mark.parametrize(
    ("theirs", "told"),
    [
        ({"PySpark": "4.3.0", "Python": "3.11"}, ()),
        ({"PySpark": "4.2.0", "Python": "3.11"}, ("PySpark is 4.2.0 and not 4.3.0",)),
        ({"Python": "3.11"}, ("PySpark is unknown and not 4.3.0",)),
    ],
)
def test_builds_differ_in_what_is_named(theirs: dict[str, str], told: tuple[str, ...]) -> None:
    assert differences({"PySpark": "4.3.0", "Python": "3.11"}, theirs) == told


@pytest.fixture
def java() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def test_the_end_of_java_is_told_with_its_cause(java: subprocess.Popen[bytes], tmp_path: Path) -> None:
    over = _Over(threading.Event())
    java.terminate()

    _watch(java, None, (tmp_path,), over)

    assert over.reason == "its Java has ended: SIGTERM ended it"


def test_a_java_without_its_directories_is_given_up(java: subprocess.Popen[bytes], tmp_path: Path) -> None:
    over = _Over(threading.Event())

    _watch(java, None, (tmp_path, tmp_path / "sockets"), over)

    assert over.reason == f"its directory {tmp_path / 'sockets'} was removed"
