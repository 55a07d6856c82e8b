"""How a running job is found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from streamjob.client.discovery import (
    NoRunningJob,
    SeveralRunningJobs,
    StaleControlFile,
    find_endpoint,
    has_ended,
    read_control_file,
)
from streamjob.client.models import ControlFile
from streamjob.errors import ExitCode, InvalidInput

TOKEN = "a-secret-of-the-job"


@pytest.fixture(scope="module")
def dead_pid() -> int:
    """The id of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def _running(root: Path, name: str, pid: int | None = None) -> Path:
    workdir = root / name
    workdir.mkdir(parents=True)
    (workdir / "token").write_text(f"{TOKEN}\n")
    control = ControlFile(url=f"http://{name}:1", pid=pid or os.getpid(), token_file=str(workdir / "token"))
    (workdir / "control.json").write_text(control.model_dump_json())
    return workdir


def test_the_only_running_job_is_found_without_being_named(tmp_path: Path, dead_pid: int) -> None:
    workdir = _running(tmp_path, "flights")
    _running(tmp_path, "killed", dead_pid)
    (tmp_path / "ended").mkdir()

    endpoint = find_endpoint(root=tmp_path)

    assert (endpoint.url, endpoint.token, endpoint.workdir) == ("http://flights:1", TOKEN, workdir)


def test_a_job_is_found_by_its_work_directory(tmp_path: Path) -> None:
    _running(tmp_path, "flights")
    workdir = _running(tmp_path, "weather")

    assert find_endpoint(workdir=workdir, root=tmp_path).url == "http://weather:1"


def test_a_job_is_found_by_its_url_and_token_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)

    endpoint = find_endpoint(url="http://pod:8080", token_file=tmp_path / "token")

    assert (endpoint.url, endpoint.token, endpoint.workdir) == ("http://pod:8080", TOKEN, None)


def test_several_running_jobs_are_named(tmp_path: Path) -> None:
    _running(tmp_path, "flights")
    _running(tmp_path, "weather")

    with pytest.raises(SeveralRunningJobs, match=r"2 jobs .*: flights, weather") as caught:
        find_endpoint(root=tmp_path)

    assert "--workdir" in caught.value.fix


def test_no_running_job_is_an_error_that_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(NoRunningJob, match=str(tmp_path)) as caught:
        find_endpoint(root=tmp_path)

    assert caught.value.exit_code is ExitCode.INVALID_INPUT


def test_a_work_directory_without_a_job_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NoRunningJob, match=r"control\.json"):
        find_endpoint(workdir=tmp_path)


def test_a_file_of_a_killed_process_is_recognised(tmp_path: Path, dead_pid: int) -> None:
    workdir = _running(tmp_path, "flights", dead_pid)

    for arguments in ({"workdir": workdir}, {"root": tmp_path}):
        with pytest.raises(StaleControlFile, match=f"process {dead_pid} ended") as caught:
            find_endpoint(**arguments)  # type: ignore[arg-type]
        assert "last checkpoint" in caught.value.fix


def test_a_job_has_ended_when_its_file_is_gone_or_its_process_is(tmp_path: Path, dead_pid: int) -> None:
    assert not has_ended(_running(tmp_path, "flights"))
    assert has_ended(_running(tmp_path, "killed", dead_pid))
    assert has_ended(tmp_path / "nothing")


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"url": 1}'])
def test_a_file_that_is_no_control_file_is_an_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "control.json").write_text(content)

    with pytest.raises(InvalidInput, match="not a control file"):
        read_control_file(tmp_path)


def test_a_url_needs_a_token_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no token"):
        find_endpoint(url="http://pod:8080")
    with pytest.raises(InvalidInput, match="No such file"):
        find_endpoint(url="http://pod:8080", token_file=tmp_path / "token")


def test_a_url_and_a_work_directory_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="both"):
        find_endpoint(url="http://pod:8080", workdir=tmp_path, token_file=tmp_path / "token")


@pytest.mark.parametrize("content", ["", "two words", f"{TOKEN}\n{TOKEN}", "über", "a\x00b"])
def test_a_file_without_a_token_is_an_error_that_does_not_quote_it(tmp_path: Path, content: str) -> None:
    (tmp_path / "token").write_text(content)

    with pytest.raises(InvalidInput, match="token file") as caught:
        find_endpoint(url="http://pod:8080", token_file=tmp_path / "token")

    assert TOKEN not in str(caught.value)


def test_an_endpoint_does_not_show_its_token(tmp_path: Path) -> None:
    assert TOKEN not in repr(find_endpoint(workdir=_running(tmp_path, "flights")))
