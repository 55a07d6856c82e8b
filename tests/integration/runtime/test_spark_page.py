"""Spark's own page of a real job, behind the job's control API."""

from __future__ import annotations

import re
from pathlib import Path
from shutil import which
from urllib.parse import urljoin

import httpx
import pytest
from tests import jobs
from tests.integration.runtime.executor_processes import LONG
from tests.integration.runtime.processes import job_runs
from tests.integration.runtime.purchases import write_job

from streamjob.client.discovery import find_endpoint

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PARTS = ["jobs/", "stages/", "storage/", "environment/", "executors/", "SQL/", "StreamingQuery/"]


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    """A job whose Spark has its page."""
    job = jobs.job_file(
        jobs.sql("rows", "ticks", "SELECT value FROM ticks"),
        sources=[jobs.source("ticks", options={"rowsPerSecond": 10})],
        sinks=[jobs.sink("rows", "json", tmp_path / "out")],
        name="shown",
        checkpointing={"interval": "2s"},
        sparkConf={"spark.ui.enabled": "true"},
    )
    return write_job(tmp_path, job)


def test_sparks_page_is_read_below_the_jobs_address_and_nowhere_else(job_file: Path, tmp_path: Path) -> None:
    with job_runs(job_file, tmp_path / "snapshots", "shown") as runs:
        process = runs.start()
        runs.wait(lambda: bool(runs.completions()), "checkpoint", process, LONG)
        endpoint = find_endpoint(url=None, workdir=tmp_path / "work", token_file=None)
        with httpx.Client(base_url=endpoint.url, timeout=60.0, trust_env=False) as http:
            token = {"Authorization": f"Bearer {endpoint.token}"}
            assert http.get("/v1/job", headers=token).json()["sparkPage"]
            path = http.post("/v1/spark-page", headers=token).json()["path"]

            first = http.get(path)
            assert (first.status_code, first.headers["Location"]) == (302, f"{path}jobs/")
            pages = {each: http.get(urljoin(path, each)) for each in PARTS}
            assert {each: page.status_code for each, page in pages.items()} == dict.fromkeys(PARTS, 200)
            links = set(re.findall(r'(?:href|src)="(/[^"]*)"', "".join(page.text for page in pages.values())))
            assert links
            assert {link for link in links if not link.startswith(path)} == set()
            assert http.get(next(link for link in links if link.endswith("/webui.js"))).status_code == 200
            assert "kill" not in pages["jobs/"].text

            answers = {port: _answer(port) for port in _ports_of_java(process.pid)}
            assert 403 in answers.values()
            assert 200 not in answers.values()
            if which("chromium") is not None:
                _looks_right(f"{endpoint.url}{path}")


def _ports_of_java(leader: int) -> set[int]:
    """Return the ports on which the Java of a job's processes listens."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:] + Path("/proc/net/tcp6").read_text().splitlines()[1:]
    inodes = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == leader and (entry / "comm").read_text().startswith("java"):
                inodes |= {each.readlink().name for each in (entry / "fd").iterdir()}
        except OSError:
            continue
    listening = (line.split() for line in lines)
    return {
        int(fields[1].rpartition(":")[2], 16)
        for fields in listening
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes
    }


def _answer(port: int) -> int | None:
    """Return the status that a stranger gets at a port; None if it speaks no HTTP."""
    try:
        return httpx.get(f"http://127.0.0.1:{port}/jobs/", timeout=5.0, trust_env=False).status_code
    except httpx.HTTPError:
        return None


def _looks_right(url: str) -> None:
    """Open the page in a browser; its policy must not forbid what the page needs."""
    from tests.integration.page.browser import chromium, tab

    with chromium() as browser, tab(browser) as view:
        for part in PARTS:
            view.page.goto(f"{url}{part}")
            view.page.wait_for_load_state("networkidle")
        assert [each for each in view.problems if "CSP" in each or "Content Security" in each] == []
        assert len(view.hosts) == 1
