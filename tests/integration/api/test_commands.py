"""The commands that steer a running job, against a served job on a fake runtime."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.integration.api.served import ServedJob, metrics_text
from tests.unit.view.samples import MANIFEST
from typer.testing import CliRunner

from streamjob.cli.main import app
from streamjob.client.models import JobView
from streamjob_runtime.control.api.server import ControlServer

runner = CliRunner()
STREAMJOB = [sys.executable, "-c", "from streamjob.cli.main import main; main()"]


@pytest.fixture
def job(request: pytest.FixtureRequest) -> ServedJob:
    """A job that has begun, unless the test says otherwise."""
    return ServedJob(prompt=True, begun=getattr(request, "param", True))


@pytest.fixture
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STREAMJOB_TOKEN_FILE", raising=False)
    workdir = tmp_path / ".streamjob" / "work" / "flights"
    workdir.mkdir(parents=True)
    return workdir


@pytest.fixture
def server(job: ServedJob, workdir: Path) -> Iterator[ControlServer]:
    """A served job that ends when it was stopped, as the runtime does."""
    server = ControlServer(job, workdir, metrics=metrics_text)
    server.start()

    def end_when_stopped() -> None:
        job.runtime.stopped.wait()
        server.stop(linger=10.0 if job.job().state.terminal else 0.0)

    ending = threading.Thread(target=end_when_stopped)
    ending.start()
    yield server
    job.runtime.stopped.set()
    ending.join()


def test_the_status_is_a_table_for_people(server: ControlServer) -> None:
    result = runner.invoke(app, ["status"], env={"COLUMNS": "100"})

    assert result.exit_code == 0, result.stderr
    for text in ("flights ● RUNNING  (namespace default)", "45,210", "2013-03-04 12:00:00", "ended", "exactly-once"):
        assert text in result.output
    assert "2 completed  ·  1 failed" in result.output
    assert MANIFEST in "".join(result.output.split("\n"))


def test_the_status_is_one_line_of_json_for_programs(server: ControlServer, job: ServedJob) -> None:
    result = runner.invoke(app, ["status", "--json"])

    (line,) = result.output.splitlines()
    shown = json.loads(line)
    assert shown["state"] == "RUNNING"
    assert shown["checkpoints"]["counts"]["completed"] == 2
    seen = JobView.model_validate(job.job().model_dump())
    more = {"checkpoints", "diagnosis"}
    assert shown["diagnosis"] == job.diagnosis().model_dump(mode="json")
    assert {key: value for key, value in shown.items() if key not in more} == seen.model_dump(mode="json")


@pytest.mark.parametrize(("flags", "write"), [([], False), (["--write"], True)])
def test_the_page_is_opened_with_a_code_that_works_once(
    server: ControlServer, monkeypatch: pytest.MonkeyPatch, flags: list[str], write: bool
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)

    result = runner.invoke(app, ["ui", *flags])

    assert result.exit_code == 0, result.stderr
    assert opened == result.output.split()
    page, _, code = opened[0].partition("#code=")
    assert page == f"{server.url}/ui/"
    session = httpx.post(f"{server.url}/v1/sessions", json={"code": code}, trust_env=False)
    assert session.json()["write"] is write


def test_the_page_may_be_opened_by_hand(server: ControlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webbrowser.open", lambda page: pytest.fail("opened"))

    assert "/ui/#code=" in runner.invoke(app, ["ui", "--no-open"]).output


@pytest.mark.parametrize("job", [False], indirect=True, ids=["not begun"])
def test_a_status_of_a_job_that_has_just_begun(server: ControlServer, job: ServedJob) -> None:
    job.runtime.coordination.failed("disk full")

    result = runner.invoke(app, ["status"])

    assert result.exit_code == 0
    assert "disk full" in result.output


@pytest.mark.parametrize(
    "arguments", [["--workdir", ".streamjob/work/flights"], ["--url", "URL", "--token-file", "TOKEN"]]
)
def test_a_job_is_found_as_it_is_named(server: ControlServer, workdir: Path, arguments: list[str]) -> None:
    places = {"URL": server.url, "TOKEN": str(workdir / "token")}

    result = runner.invoke(app, ["status", "--json", *(places.get(argument, argument) for argument in arguments)])

    assert json.loads(result.output)["name"] == "flights"


def test_a_token_of_another_job_is_invalid_input(server: ControlServer, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("the-token-of-another-job")

    result = runner.invoke(app, ["status", "--url", server.url, "--token-file", str(tmp_path / "other")])

    assert result.exit_code == 2
    assert "no valid token" in result.stderr


def test_a_checkpoint_is_waited_for(server: ControlServer) -> None:
    result = runner.invoke(app, ["checkpoint"])

    assert (result.exit_code, result.output) == (0, f"checkpoint 15 completed: {MANIFEST}\n")


def test_a_checkpoint_that_fails_is_exit_code_5(server: ControlServer, job: ServedJob) -> None:
    job.runtime.failure = "the store is away"

    result = runner.invoke(app, ["checkpoint", "--json"])

    assert result.exit_code == 5
    assert json.loads(result.stdout)["state"] == "FAILED"
    failure = "the checkpoint failed: the manifest or its log record could not be written: the store is away"
    assert failure in result.stderr


def test_a_checkpoint_that_is_only_asked_for(server: ControlServer, job: ServedJob) -> None:
    job.runtime.prompt = False

    result = runner.invoke(app, ["checkpoint", "--no-wait", "--json"])

    shown = json.loads(result.output)
    assert (result.exit_code, shown["state"]) == (0, "QUEUED")
    assert job.asked == [("checkpoint", shown["triggerId"])]


def test_a_checkpoint_that_takes_too_long_is_exit_code_5(server: ControlServer, job: ServedJob) -> None:
    job.runtime.prompt = False

    result = runner.invoke(app, ["checkpoint", "--timeout", "0"])

    assert result.exit_code == 5
    assert "still QUEUED" in result.stderr


def test_a_drain_is_asked_for(server: ControlServer, job: ServedJob) -> None:
    result = runner.invoke(app, ["stop", "--savepoint", "s3://bucket/p", "--drain"])

    assert result.exit_code == 0, result.stderr
    assert (job.locations, job.drains) == (["s3://bucket/p/"], [True])


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        (["savepoint"], None),
        (["savepoint", "--location", "s3://bucket/p"], "s3://bucket/p/"),
        (["savepoint", "--location", "mine"], "file://{here}/mine/"),
        (["stop", "--savepoint"], None),
        (["stop", "--savepoint", "mine"], "file://{here}/mine/"),
    ],
)
def test_the_place_of_a_savepoint_is_sent_as_a_uri(
    server: ControlServer, job: ServedJob, tmp_path: Path, arguments: list[str], sent: str | None
) -> None:
    """The job's process does not know the caller's directory."""
    result = runner.invoke(app, arguments)

    assert result.exit_code == 0, result.stderr
    assert job.locations == [sent and sent.format(here=tmp_path)]


def test_a_stop_returns_when_the_process_has_let_go(server: ControlServer, workdir: Path) -> None:
    result = runner.invoke(app, ["stop", "--drain"])

    assert (result.exit_code, result.output) == (0, f"stopped with snapshot 15: {MANIFEST}\n")
    assert not (workdir / "control.json").exists()


def test_a_stop_by_url_ends_with_the_jobs_last_state(server: ControlServer, workdir: Path) -> None:
    result = runner.invoke(app, ["stop", "--json", "--url", server.url, "--token-file", str(workdir / "token")])

    assert result.exit_code == 0
    assert json.loads(result.output)["state"] == "COMPLETED"


@pytest.mark.parametrize("command", ["status", "checkpoint", "savepoint", "stop"])
def test_without_a_running_job_a_process_ends_with_2_and_one_message(workdir: Path, command: str) -> None:
    ended = subprocess.run([*STREAMJOB, command], capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("error: no job is running below")
    assert "Traceback" not in ended.stderr


def test_a_process_steers_a_job_and_ends_with_0(server: ControlServer) -> None:
    ended = subprocess.run([*STREAMJOB, "stop", "--json"], capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(ended.stdout)["kind"] == "stop"


def test_a_job_that_does_not_answer_is_exit_code_5(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a-token-of-nobody")
    arguments = ["status", "--url", "http://127.0.0.1:9", "--token-file", str(tmp_path / "token")]

    ended = subprocess.run([*STREAMJOB, *arguments], capture_output=True, text=True, check=False)

    assert ended.returncode == 5
    assert "no answer from the control API at http://127.0.0.1:9" in ended.stderr
