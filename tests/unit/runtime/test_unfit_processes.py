"""What ends a process because its Spark cannot be used any more, with the cause."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from streamjob_runtime.spark import holder as holder_module
from streamjob_runtime.spark.holder import DirectoriesGone, SparkHolder
from streamjob_runtime.spark.process.java_death import oom_kills, why_ended
from streamjob_runtime.spark.process.sockets import socket_directory
from streamjob_runtime.spark.session import SessionSettings

PID = 4242


@pytest.mark.parametrize(
    ("code", "kills", "told", "about_memory"),
    [
        (52, (0, 0), "its heap was full (OutOfMemoryError, exit code 52)", True),
        (3, (None, None), "its heap was full (OutOfMemoryError, exit code 3)", True),
        (-9, (2, 3), "the kernel killed it, because the memory of its container was used up", True),
        (-9, (None, None), "SIGKILL ended it, which the kernel sends when memory runs out", True),
        (-9, (2, 2), "somebody sent it SIGKILL; the kernel reports no lack of memory", False),
        (-15, (0, 0), "SIGTERM ended it", False),
        (143, (0, 0), "SIGTERM ended it", False),
        (1, (0, 0), "its exit code is 1", False),
        (255, (0, 0), "its exit code is 255", False),
    ],
)
def test_a_death_is_explained_by_its_exit_code_and_the_kernels_count(
    code: int, kills: tuple[int | None, int | None], told: str, about_memory: bool, tmp_path: Path
) -> None:
    death = why_ended(code, PID, kills, tmp_path)

    assert death.cause == told
    assert ("spark.driver.memory" in death.advice) == about_memory


@pytest.mark.parametrize(
    ("report", "told"),
    [
        ("# There is insufficient memory for the Java Runtime Environment to continue.\n", "no memory left"),
        ("# A fatal error has been detected by the Java Runtime Environment:\n#  SIGSEGV\n", "it crashed, see"),
    ],
)
def test_a_crash_is_explained_by_javas_own_report(report: str, told: str, tmp_path: Path) -> None:
    (tmp_path / f"hs_err_pid{PID}.log").write_text(f"#\n{report}")

    death = why_ended(-6, PID, (0, 0), tmp_path)

    assert told in death.cause
    assert f"hs_err_pid{PID}.log" in death.cause


def test_the_kernels_count_is_that_of_the_processs_own_control_group(tmp_path: Path) -> None:
    assert oom_kills(tmp_path) is None
    groups = tmp_path / "sys/fs/cgroup"
    groups.mkdir(parents=True)
    (groups / "memory.events").write_text("low 0\noom 1\noom_kill 1\n")
    assert oom_kills(tmp_path) == 1, "in a container its own group is the root"

    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/system.slice/job.service\n")
    (groups / "system.slice/job.service").mkdir(parents=True)
    (groups / "system.slice/job.service/memory.events").write_text("oom 7\noom_kill 5\noom_group_kill 0\n")
    assert oom_kills(tmp_path) == 5


@pytest.fixture
def java() -> Iterator[subprocess.Popen[bytes]]:
    """A process that Spark's holder takes for its Java."""
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def test_a_process_is_unfit_only_once_its_java_has_ended(java: subprocess.Popen[bytes], tmp_path: Path) -> None:
    holder = SparkHolder(SessionSettings(name="job", parallelism=1, max_parallelism=1, workdir=tmp_path))
    assert holder.unfit() is None, "it has not started"
    holder._session = cast("Any", SimpleNamespace(sparkContext=SimpleNamespace(_gateway=SimpleNamespace(proc=java))))
    assert holder.unfit() is None

    java.terminate()
    unfit = holder.unfit(patience=60.0)

    assert unfit is not None
    assert unfit.what == "Spark's process has ended: SIGTERM ended it"
    assert unfit.fix == "start the job again: it continues from its last checkpoint"


@pytest.fixture
def holder(java: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SparkHolder:
    """A holder whose Spark has made its directories."""
    context = SimpleNamespace(_gateway=SimpleNamespace(proc=java))

    def start(settings: SessionSettings, *_: Any) -> Any:
        settings.temporary.mkdir(parents=True)
        socket_directory(settings.workdir)
        (settings.workdir / "spark" / "blockmgr-1").mkdir(parents=True)
        return SimpleNamespace(sparkContext=context, conf=SimpleNamespace(set=lambda *_: None))

    monkeypatch.setattr(holder_module, "start_session", start)
    # So long that the sockets are in a directory of the machine.
    workdir = tmp_path / ("long" * 20)
    started = SparkHolder(SessionSettings(name="job", parallelism=1, max_parallelism=1, workdir=workdir))
    started.session(1)
    return started


def test_directories_for_temporary_files_and_sockets_are_made_again(holder: SparkHolder) -> None:
    workdir = holder._settings.workdir
    spare = [workdir / "tmp", (workdir / "sockets").resolve()]
    for each in spare:
        shutil.rmtree(each)

    assert holder.unfit() is None

    assert [each.stat().st_mode & 0o777 for each in spare] == [0o700, 0o700]


@pytest.mark.parametrize("gone", [".", "spark", "spark/blockmgr-1"])
def test_a_process_whose_spark_has_lost_its_directories_is_unfit(gone: str, holder: SparkHolder) -> None:
    workdir = holder._settings.workdir
    assert holder.unfit() is None
    shutil.rmtree(workdir / gone)

    unfit = holder.unfit()

    assert unfit is not None
    assert unfit.what.endswith("of this process was removed while it ran")
    assert str(workdir) in unfit.what
    with pytest.raises(DirectoriesGone):
        holder.session(1)
