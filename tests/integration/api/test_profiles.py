"""Profiles over real HTTP, and the command that asks for one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.integration.api.served import ServedJob, serving
from typer.testing import CliRunner

from streamjob.cli.main import app


def completed(http: httpx.Client, profile: str) -> Any:
    """Wait for a profile, and return it."""
    deadline = time.monotonic() + 30
    while (view := http.get(f"/v1/profiles/{profile}").json())["state"] == "RECORDING":
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return view


def test_a_profile_is_recorded_once_however_often_it_is_asked_for(http: httpx.Client, job: ServedJob) -> None:
    asked = [http.post("/v1/profiles", json={"seconds": 5, "triggerId": "mine"}) for _ in range(2)]
    assert [each.status_code for each in asked] == [202, 202]
    assert asked[0].headers["Location"] == "/v1/profiles/mine"
    other = http.post("/v1/profiles", json={})
    assert (other.status_code, other.json()["detail"]) == (409, "The profile mine is being recorded")
    job.profiled.set()

    view = completed(http, "mine")

    (process,) = view["processes"]
    assert (process["process"], process["language"], process["cpuMs"]) == ("driver", "java", 1000.0)
    assert process["nodes"][0] == [0, 0, 1000.0]
    assert "io.Rows.read" in process["frames"]
    assert [each["id"] for each in http.get("/v1/profiles").json()["profiles"]] == ["mine"]
    sentences = [each["sentence"] for each in http.get("/v1/events").json()["events"]]
    assert sentences[:2] == ["the profile is there", "a profile of 5 seconds was requested"]


@pytest.mark.parametrize("seconds", [0, -1, 301, "long", float("inf")])
def test_a_profile_without_a_sensible_length_is_refused(http: httpx.Client, seconds: Any) -> None:
    body = '{"seconds": Infinity}' if seconds == float("inf") else None

    answer = (
        http.post("/v1/profiles", content=body, headers={"Content-Type": "application/json"})
        if body
        else http.post("/v1/profiles", json={"seconds": seconds})
    )

    assert answer.status_code == 422
    assert http.get("/v1/profiles").json() == {"profiles": []}


def test_an_unknown_profile_is_not_found(http: httpx.Client) -> None:
    assert http.get("/v1/profiles/other").status_code == 404


@pytest.mark.parametrize("form", ["svg", "folded", "json"])
def test_the_command_writes_the_profile_and_names_the_hottest_functions(tmp_path: Path, form: str) -> None:
    job = ServedJob()
    job.profiled.set()
    file = tmp_path / f"found.{form}"
    with serving(job, tmp_path):
        options = ["--workdir", str(tmp_path), "--seconds", "2s", "--output", str(file)]
        result = CliRunner().invoke(app, ["profile", *options])

    assert result.exit_code == 0, result.output
    assert "driver, Java: 1.0 s of CPU time in 2 s" in result.output
    assert "90.0%  io.Job.run" in result.output
    assert "io.Rows.read" in file.read_text()


def test_the_command_refuses_a_form_that_it_does_not_know(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["profile", "--output", str(tmp_path / "found.png")])

    assert result.exit_code == 2
    assert "cannot be written as '.png'" in result.output
