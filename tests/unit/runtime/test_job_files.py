"""The names that Spark knows a job's directories by, and the hint that it has to copy what it could link."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from streamjob_runtime.spark import job_files
from streamjob_runtime.spark.job_files import JobFiles, copying_hint
from streamjob_runtime.spark.session import SessionSettings

LOCAL = "spark.local.dir"


def test_a_directory_below_the_root_has_the_same_name_wherever_the_root_is(tmp_path: Path) -> None:
    names = {JobFiles(root).location(root / "3" / "main" / "checkpoint") for root in (tmp_path, tmp_path / "other")}

    assert names == {"job:///3/main/checkpoint"}


def test_a_root_may_be_given_relative_to_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert JobFiles(Path("work")).location(tmp_path / "work" / "3") == "job:///3"


def test_a_directory_anywhere_else_has_no_such_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="elsewhere"):
        JobFiles(tmp_path / "work").location(tmp_path / "elsewhere")


def test_java_learns_the_root_and_a_job_cannot_name_another(tmp_path: Path) -> None:
    option = "spark.driver.extraJavaOptions"
    root = tmp_path / 'my "own" work'
    settings = SessionSettings("job", 1, 1, root / "process-1", {option: "-Dstreamjob.files=/mine"}, root=root)

    named = [each for each in shlex.split(settings.spark_conf()[option]) if each.startswith("-Dstreamjob.files=")]

    assert named[-1] == f"-Dstreamjob.files={root}"  # Java takes the last one.


def test_a_process_without_a_root_of_its_own_keeps_files_in_its_work_directory(tmp_path: Path) -> None:
    assert SessionSettings("parse", 1, 1, tmp_path).files == JobFiles(tmp_path)


@pytest.fixture
def disks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Two disks: what is below `fast` is on one, all else on the other."""
    monkeypatch.setattr(job_files, "_device", lambda directory: int("fast" in directory.parts))
    return {LOCAL: str(tmp_path / "work" / "process-1" / "spark")}


def test_one_disk_for_all_needs_no_hint(tmp_path: Path, disks: dict[str, str]) -> None:
    assert copying_hint(JobFiles(tmp_path / "work"), disks, {}) is None


@pytest.mark.parametrize("by", ["sparkConf", "environment"])
def test_a_local_directory_of_spark_on_another_disk_is_named(tmp_path: Path, disks: dict[str, str], by: str) -> None:
    both = f"{disks[LOCAL]},{tmp_path}/fast"
    conf, environment = ({LOCAL: both}, {}) if by == "sparkConf" else (disks, {"SPARK_LOCAL_DIRS": both})

    hint = copying_hint(JobFiles(tmp_path / "work"), conf, environment)

    assert hint is not None
    assert f"{tmp_path}/fast and the work directory {tmp_path}/work are on two file systems" in hint


def test_a_directory_that_is_yet_to_be_made_is_on_the_file_system_of_the_one_above_it(tmp_path: Path) -> None:
    conf = {LOCAL: str(tmp_path / "not" / "yet")}

    assert copying_hint(JobFiles(tmp_path / "work"), conf, {}) is None
