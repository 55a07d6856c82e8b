"""The page as the driver's own server serves it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.integration.api.served import ServedJob, serving, token_of
from tests.integration.page.browser import tab
from tests.servers.process import free_port

from streamjob.client.client import ControlClient

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]


@contextmanager
def driver(workdir: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run a driver in a process of its own, which is killed at the end."""
    command = [sys.executable, "-m", "tests.integration.page.killed", str(workdir), str(port)]
    (workdir / "control.json").unlink(missing_ok=True)
    with subprocess.Popen(command, cwd=ROOT) as process:
        try:
            deadline = time.monotonic() + 120
            while not (workdir / "control.json").exists():
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.05)
            yield process
        finally:
            process.kill()


def test_a_session_by_a_code_shows_the_job_and_takes_a_checkpoint(browser: Any, tmp_path: Path) -> None:
    job = ServedJob(prompt=True)
    with serving(job, tmp_path) as http, tab(browser) as seen:
        code = http.post("/v1/sessions/codes", json={"write": True}).json()["code"]
        seen.open(f"{http.base_url}/ui/#code={code}")

        assert seen.text("h1").startswith("flights")
        assert seen.text(".link").startswith("Live")
        assert seen.page.locator(".chain").count() == 1
        assert seen.page.locator(".end.source").count() == 2
        assert seen.violations() == []
        seen.page.get_by_role("button", name="Checkpoint", exact=True).click()
        seen.page.get_by_text("done").wait_for()
        assert [kind for kind, _ in job.asked] == ["checkpoint"]
        assert seen.problems == []
        assert len(seen.hosts) == 1


def test_a_driver_that_is_killed_leaves_the_last_picture_and_the_next_one_asks_for_a_session(
    browser: Any, tmp_path: Path
) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with tab(browser) as seen:
        seen.expected = ("net::ERR", "401")
        with driver(tmp_path, port) as process:
            with ControlClient(url, token_of(tmp_path)) as client:
                code = client.new_code().code
            seen.open(f"{url}/ui/#code={code}")
            process.kill()

            seen.page.locator(".notice").get_by_text("No connection since").wait_for()
            assert seen.text("h1").startswith("flights")
            assert seen.page.locator(".chain").count() == 1

        with driver(tmp_path, port):
            # Its sessions are gone with the process that was killed.
            seen.page.locator(".notice input").wait_for()
            assert seen.text("h1").startswith("flights")
            with ControlClient(url, token_of(tmp_path)) as client:
                seen.page.goto(f"{url}/ui/?again#code={client.new_code().code}")
            seen.page.locator(".link", has_text="Live").wait_for()
        assert seen.problems == []
