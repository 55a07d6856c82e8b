"""The page as the driver's own server serves it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.integration.api.served import ServedJob, serving
from tests.integration.page.browser import tab

pytestmark = pytest.mark.slow


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
