"""An engineer watches a job in a browser while it is upgraded, and finds the whole upgrade in one trace."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from e2e.harness.accounts import account
from e2e.harness.cluster import ROOT, Cluster
from e2e.harness.controller import StreamJobs
from e2e.harness.helm import Release
from e2e.harness.namespace import Namespace
from e2e.harness.visits import visits
from tests.integration.page.browser import Tab, chromium, tab
from tests.servers.collector import Collector, ReceivedSpan

pytestmark = [pytest.mark.timeout(1500), pytest.mark.thorough]

NAME = "visits"
VIEWER = "streamjob-viewer"
"""The service account that `streamjob ui` uses."""
WAIT = 120_000
"""Milliseconds for whatever the page is to show."""


@contextmanager
def page_of_all_jobs(namespace: Namespace, release: Release) -> Iterator[str]:
    """Run `streamjob ui` with a forwarded port, and give the address that it prints."""
    command = [str(Path(sys.executable).with_name("streamjob")), "ui", "--no-open"]
    command += ["--namespace", namespace.name, "--controller-namespace", release.namespace]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def watched(seen: Tab, jobs: StreamJobs, pictures: Path) -> Iterator[str]:
    """Yield the headline, and what the page says of the resource, whenever one of them changes, until the end."""
    last = ""
    end = time.monotonic() + WAIT / 1000
    while not _is_upgraded(jobs.status(NAME)):
        assert time.monotonic() < end, "the upgrade takes too long"
        found = seen.text(".headline") + "\n" + seen.text("[aria-label='In Kubernetes']")
        if found != last:
            seen.page.screenshot(path=pictures / f"{time.strftime('%H%M%S')}.png", full_page=True)
            yield found
        last = found
        time.sleep(0.3)


def _is_upgraded(status: dict[str, Any]) -> bool:
    return bool(status["jobStatus"]["attempt"] == 2 and status["lifecycleState"] == "STABLE")


def ancestors(span: ReceivedSpan, by_id: Mapping[str, ReceivedSpan]) -> list[str]:
    """Return the names of the spans above a span, the nearest first."""
    found = []
    while (above := by_id.get(span.parent)) is not None:
        found.append(above.name)
        span = above
    return found


def trace_of_upgrade(spans: Sequence[ReceivedSpan]) -> list[ReceivedSpan]:
    """Return the spans of the upgrade's trace, as far as the processes have sent them."""
    traces = {each.trace for each in spans if each.name == "upgrade"}
    return [each for each in spans if each.trace in traces]


def is_whole(spans: Sequence[ReceivedSpan]) -> bool:
    """Return whether controller and both drivers have sent their parts of the upgrade's trace."""
    return {"upgrade", "upload", "first batch", "restore"} <= {each.name for each in trace_of_upgrade(spans)}


def test_the_page_shows_an_upgrade_from_begin_to_end_without_a_reload_and_one_trace_has_its_steps(
    cluster: Cluster, namespace: Namespace, release: Release, tmp_path: Path
) -> None:
    jobs = StreamJobs(namespace)
    with Collector(host=cluster.way_back) as collector, chromium() as browser, tab(browser) as seen:
        otlp = {"endpoint": collector.url}
        values = {"watchNamespaces": [namespace.name], "reconcileInterval": "2s"}
        release.install({**values, "page": {"enabled": True}, "otlp": otlp})
        cluster.refresh()
        account(namespace, VIEWER, "get", "list")
        namespace.write(visits(0, 20))
        jobs.apply(NAME, observability={"otlp": otlp})
        jobs.wait_for_state(NAME, "STABLE")
        with page_of_all_jobs(namespace, release) as address:
            # The driver is away for some seconds.
            seen.expected = ("401", "502", "503", "net::ERR")
            seen.page.goto(address)
            seen.page.get_by_role("link", name=NAME).click()
            seen.page.locator(".headline").get_by_text("Live").wait_for(timeout=WAIT)
            seen.page.screenshot(path=tmp_path / "1-before.png", full_page=True)
            seen.page.evaluate("window.opened = 'before the upgrade'")

            jobs.change(NAME, sparkConf={"spark.sql.session.timeZone": "UTC"})
            namespace.write(visits(20, 40))
            sights = "\n".join(watched(seen, jobs, tmp_path))
            seen.page.locator(".headline").get_by_text("Live").wait_for(timeout=WAIT)
            seen.page.screenshot(path=tmp_path / "4-after.png", full_page=True)

            for sight in ("The driver stops with a savepoint", "Stopped with savepoint", "Restoring savepoint"):
                assert sight in sights
            assert seen.page.evaluate("window.opened") == "before the upgrade"
            assert seen.problems == []

        trace = trace_of_upgrade(collector.received.wait_for(is_whole, 120))
        assert {each.failure for each in trace} == {None}
        by_id = {each.id: each for each in trace}
        above = {each.name: ancestors(each, by_id) for each in trace}
        assert above["savepoint"] == ["stop", "upgrade"]
        assert above["upload"][-2:] == ["stop", "upgrade"]
        assert above["restore"] == ["start", "upgrade"]
        assert above["first batch"] == ["restore", "start", "upgrade"]
        jobs.wait_for_whole_report(NAME, 40)
        jobs.remove_all()
