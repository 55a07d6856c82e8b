"""The controller's page of all jobs in a browser, and the way from it to a job's own page on a real driver's server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.integration.api.served import ServedJob, serving
from tests.integration.core import thorough
from tests.integration.page.browser import Tab, tab
from tests.integration.page.states import HOSTILE
from tests.unit.operator.web.bench import PageCluster, condition, job, page_in_a_thread, put, token

from streamjob.page.audiences import READ_AUDIENCE, WRITE_AUDIENCE
from streamjob_operator.cluster.driver_api import DriverAddress
from streamjob_operator.cluster.kinds import STREAM_JOB

pytestmark = pytest.mark.slow

READER = "shop-reader"


def failing(name: str, message: str = "the last 3 checkpoints failed: 503 Slow Down", **parts: Any) -> dict[str, Any]:
    """Return a job whose checkpoints fail."""
    return job(name, conditions=[condition("CheckpointHealthy", "False", "CheckpointsFail", message)], **parts)


def upgrading(name: str) -> dict[str, Any]:
    """Return a job that is being upgraded."""
    stops = condition("Reconciling", "True", "Upgrading", "the driver stops with a savepoint for revision 9f1c")
    return job(name, lifecycleState="UPGRADING", conditions=[stops])


def suspended(name: str) -> dict[str, Any]:
    """Return a job that is suspended."""
    ready = condition("Ready", "True", "Suspended", "the job is suspended, as asked")
    return job(name, spec={"suspend": True}, lifecycleState="SUSPENDED", conditions=[ready])


def hostile() -> dict[str, Any]:
    """Return a job all of whose text is hostile; the API server would not let such a name in."""
    wrong = f"{HOSTILE} \u202e {'W' * 300}"
    return job(
        HOSTILE,
        lifecycleState="FAILED",
        jobStatus={"state": "FAILED", "failure": wrong},
        conditions=[condition("Stalled", "True", "InvalidSpec", wrong)],
        reconciliation={"lastReconciledRevision": HOSTILE},
    )


JOBS: dict[str, list[dict[str, Any]]] = {
    "none": [],
    "three": [failing("orders"), upgrading("clicks"), job("views")],
    "hostile": [hostile(), job("a" * 253), failing("orders", HOSTILE)],
    "many": [
        *(failing(f"payments-{number}") for number in range(3)),
        *(upgrading(f"clicks-{number}") for number in range(7)),
        *(suspended(f"archive-{number:02}") for number in range(20)),
        *(job(f"views-{number:03}", f"team-{number % 9}") for number in range(170)),
    ],
}


def elsewhere(coroutine: Coroutine[Any, Any, Any]) -> None:
    """Run a coroutine in another thread: in this one Playwright has an event loop."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, coroutine).result()


def cluster(*jobs: dict[str, Any], write: bool = False) -> tuple[PageCluster, str]:
    """Return a cluster with jobs, and a token."""
    found, shown = PageCluster(), token(time.time() + 3600)
    rights = [(verb, "*", "*") for verb in ("list", "get", *(("update",) if write else ()))]
    found.account(shown, READER, *rights, audiences=(WRITE_AUDIENCE if write else READ_AUDIENCE,))
    elsewhere(put(found, *jobs))
    return found, shown


def sign_in(seen: Tab, url: str, shown: str) -> None:
    """Open the page, and enter a token."""
    seen.expected = (*seen.expected, "401")
    seen.page.goto(f"{url}/ui/")
    seen.page.get_by_label("Token").fill(shown)
    seen.page.get_by_role("button", name="Open").click()
    seen.page.locator(".jobshead").wait_for()


LOOKS = [(name, scheme) for name in JOBS for scheme in ("light", "dark")]


@pytest.mark.parametrize(("name", "scheme"), thorough(LOOKS, ("many", "light"), ("hostile", "dark")))
def test_jobs_are_listed_without_a_problem(browser: Any, name: str, scheme: str) -> None:
    found, shown = cluster(*JOBS[name])
    with page_in_a_thread(found) as url, tab(browser, scheme) as seen:
        sign_in(seen, url, shown)

        assert seen.page.locator("tr.job").count() == len(JOBS[name])
        for width, height in ((1440, 900), (390, 844)):
            seen.page.set_viewport_size({"width": width, "height": height})
            assert seen.violations() == []
            assert not seen.overflows()
        assert seen.page.locator("img, script:not([src='app.js']), iframe").count() == 0
        assert seen.problems == []
        assert seen.hosts == {urlsplit(url).netloc}


@pytest.mark.thorough
def test_the_most_urgent_job_comes_first_and_a_filter_finds_others(browser: Any) -> None:
    found, shown = cluster(*JOBS["many"])
    with page_in_a_thread(found) as url, tab(browser) as seen:
        sign_in(seen, url, shown)
        first = seen.text("tr.job")
        assert "payments-0" in first
        assert "The last 3 checkpoints failed: 503 Slow Down" in first

        seen.page.get_by_role("button", name="7 under way").click()
        assert seen.page.locator("tr.job").count() == 7
        seen.page.get_by_role("button", name="200 jobs").click()
        seen.page.get_by_label("Filter").fill("team-3 views")
        assert seen.page.locator("tr.job").count() == 19


def test_a_code_opens_the_page_and_leaves_no_trace_in_the_address(browser: Any) -> None:
    found, shown = cluster(job("views"))
    with page_in_a_thread(found) as url, tab(browser) as seen:
        given = seen.page.request.post(f"{url}/v1/sessions/codes", headers={"Authorization": f"Bearer {shown}"})
        seen.page.goto(f"{url}/ui/#code={given.json()['code']}")
        seen.page.locator("tr.job").wait_for()

        assert seen.page.url == f"{url}/ui/"
        assert READER in seen.text(".viewer")
        seen.page.reload()
        seen.page.locator("tr.job").wait_for()
        assert seen.page.context.cookies() == []
        assert seen.problems == []


def test_a_change_appears_without_a_reload_and_the_last_picture_stays(browser: Any) -> None:
    found, shown = cluster(job("views"))
    with tab(browser) as seen:
        with page_in_a_thread(found) as url:
            sign_in(seen, url, shown)
            status = failing("views")["status"]
            elsewhere(found.patch(STREAM_JOB, "shop", "views", {"status": status}))
            seen.page.get_by_text("The last 3 checkpoints failed").wait_for()
            seen.expected = ("401", "net::ERR")
        seen.page.locator(".notice").get_by_text("No connection since").wait_for()

        assert "views" in seen.text("tr.job")
        assert seen.problems == []


@pytest.mark.core
def test_a_row_leads_through_the_controller_to_the_jobs_page_which_acts(browser: Any, tmp_path: Path) -> None:
    found, shown = cluster(job("flights"), write=True)
    served = ServedJob(prompt=True)
    drivers: dict[str, DriverAddress] = {}
    with serving(served, tmp_path) as http, page_in_a_thread(found, drivers) as url, tab(browser) as seen:
        drivers["flights"] = DriverAddress(str(http.base_url).rstrip("/"), http.headers["Authorization"].split()[1])
        sign_in(seen, url, shown)
        seen.page.get_by_role("link", name="flights").click()
        seen.page.locator(".headline").get_by_text("Live").wait_for()
        seen.page.get_by_role("heading", name="In Kubernetes").wait_for()
        seen.wait_for_graph()

        assert seen.page.url == f"{url}/jobs/shop/flights/ui/"
        assert seen.page.locator(".chain").count() == 1
        assert seen.violations() == []
        seen.page.get_by_role("button", name="Checkpoint", exact=True).click()
        seen.page.get_by_text("done").wait_for()
        assert [kind for kind, _ in served.asked] == ["checkpoint"]

        seen.page.get_by_role("button", name="Rescale…").click()
        seen.page.get_by_label("Tasks at once").fill("3")
        seen.page.get_by_role("button", name="Rescale the job").click()
        seen.page.get_by_text("Parallelism is set to 3").wait_for()
        assert found.objects[(STREAM_JOB, "shop", "flights")]["spec"]["parallelism"] == 3

        seen.page.get_by_role("link", name="All jobs").click()
        seen.page.locator("tr.job").wait_for()
        assert seen.problems == []
        assert seen.hosts == {urlsplit(url).netloc}


def test_what_is_known_of_a_job_is_shown_without_its_driver_and_it_is_resumed(browser: Any) -> None:
    found, shown = cluster(suspended("views"), write=True)
    with page_in_a_thread(found) as url, tab(browser) as seen:
        sign_in(seen, url, shown)
        seen.expected = ("401", "503")
        seen.page.get_by_role("link", name="views").click()
        seen.page.get_by_text("The job is suspended, as asked").first.wait_for()

        assert "s3://state/views/12" in seen.text("[aria-label='In Kubernetes']")
        assert seen.violations() == []
        seen.page.get_by_role("button", name="Resume").click()
        seen.page.get_by_text("The job is resumed").wait_for()
        assert found.objects[(STREAM_JOB, "shop", "views")]["spec"]["suspend"] is False
        assert seen.problems == []


@pytest.mark.thorough
def test_a_reader_has_no_buttons(browser: Any) -> None:
    found, shown = cluster(suspended("views"))
    with page_in_a_thread(found) as url, tab(browser) as seen:
        sign_in(seen, url, shown)
        seen.expected = ("401", "503")
        seen.page.get_by_role("link", name="views").click()
        seen.page.get_by_text("The job is suspended, as asked").first.wait_for()

        assert seen.page.get_by_role("button", name="Resume").count() == 0


@pytest.mark.thorough
def test_a_token_that_the_cluster_no_longer_accepts_ends_the_session(browser: Any) -> None:
    found, _ = cluster(job("views"))
    with page_in_a_thread(found) as url, tab(browser) as seen:
        seen.expected = ("401",)
        seen.page.goto(f"{url}/ui/")
        seen.page.get_by_label("Token").fill("not-a-token")
        seen.page.get_by_role("button", name="Open").click()
        seen.page.get_by_text("The controller does not accept this token.").wait_for()

        assert seen.page.locator("tr.job").count() == 0
        assert seen.violations() == []
        assert seen.problems == []
