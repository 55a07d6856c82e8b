"""An engineer watches a job in a browser while it is upgraded, and finds the whole upgrade in one trace."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from e2e.harness.cluster import ROOT, Cluster
from e2e.harness.controller import StreamJobs
from e2e.harness.helm import Release
from e2e.harness.namespace import Namespace
from e2e.harness.visits import visits
from tests.integration.page.browser import chromium, tab
from tests.servers.collector import Collector, ReceivedSpan

pytestmark = [pytest.mark.timeout(1500), pytest.mark.thorough]

NAME = "visits"
VIEWER = "streamjob-viewer"
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


def viewer(namespace: Namespace) -> None:
    """Create the service account that `streamjob ui` uses, with the right to see the jobs."""
    rbac, rule = "rbac.authorization.k8s.io/v1", {"apiGroups": ["streamjob.io"], "resources": ["streamjobs"]}
    namespace.create("v1", "ServiceAccount", VIEWER)
    namespace.create(rbac, "Role", VIEWER, rules=[{**rule, "verbs": ["get", "list"]}])
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": VIEWER}
    subject = {"kind": "ServiceAccount", "name": VIEWER, "namespace": namespace.name}
    namespace.create(rbac, "RoleBinding", VIEWER, roleRef=role, subjects=[subject])


def ancestors(span: ReceivedSpan, by_id: Mapping[str, ReceivedSpan]) -> list[str]:
    """Return the names of the spans above a span, the nearest first."""
    found = []
    while (above := by_id.get(span.parent)) is not None:
        found.append(above.name)
        span = above
    return found


def upgrade_of(spans: Sequence[ReceivedSpan]) -> ReceivedSpan | None:
    """Return the span of the upgrade, which is sent when it is over."""
    return next((each for each in spans if each.name == "upgrade"), None)


def test_the_page_shows_an_upgrade_from_begin_to_end_without_a_reload_and_one_trace_has_its_steps(
    cluster: Cluster, namespace: Namespace, release: Release, tmp_path: Path
) -> None:
    jobs = StreamJobs(namespace)
    with Collector(host=cluster.way_back) as collector, chromium() as browser, tab(browser) as seen:
        otlp = {"endpoint": collector.url}
        watched = {"watchNamespaces": [namespace.name], "reconcileInterval": "2s"}
        release.install({**watched, "page": {"enabled": True}, "otlp": otlp})
        cluster.refresh()
        viewer(namespace)
        namespace.write(visits(0, 20))
        jobs.apply(NAME, observability={"otlp": otlp})
        jobs.wait_for_state(NAME, "STABLE")
        with page_of_all_jobs(namespace, release) as address:
            seen.expected = ("401", "503", "net::ERR")
            seen.page.goto(address)
            seen.page.get_by_role("link", name=NAME).click()
            seen.page.locator(".headline").get_by_text("Live").wait_for(timeout=WAIT)
            seen.page.screenshot(path=tmp_path / "1-before.png", full_page=True)
            seen.page.evaluate("window.opened = 'before the upgrade'")

            jobs.change(NAME, sparkConf={"spark.sql.session.timeZone": "UTC"})
            namespace.write(visits(20, 40))
            seen.page.get_by_text(re.compile("upgrad", re.IGNORECASE)).first.wait_for(timeout=WAIT)
            seen.page.screenshot(path=tmp_path / "2-stops.png", full_page=True)
            jobs.wait(NAME, lambda status: status["jobStatus"]["attempt"] == 2, what="second driver")
            seen.page.screenshot(path=tmp_path / "3-starts.png", full_page=True)
            jobs.wait_for_state(NAME, "STABLE")
            seen.page.locator(".headline").get_by_text("Live").wait_for(timeout=WAIT)
            seen.page.get_by_text("attempt 2").first.wait_for(timeout=WAIT)
            seen.page.screenshot(path=tmp_path / "4-after.png", full_page=True)

            assert seen.page.evaluate("window.opened") == "before the upgrade"
            assert seen.problems == []

        spans = collector.received.wait_for(lambda found: upgrade_of(found) is not None, 120)
        upgrade = upgrade_of(spans)
        assert upgrade is not None
        assert upgrade.failure is None
        trace = [each for each in spans if each.trace == upgrade.trace]
        by_id = {each.id: each for each in trace}
        above = {each.name: ancestors(each, by_id) for each in trace}
        assert above["savepoint"] == ["stop", "upgrade"]
        assert above["upload"][-2:] == ["stop", "upgrade"]
        assert above["restore"] == ["start", "upgrade"]
        assert above["first batch"] == ["restore", "start", "upgrade"]
        jobs.wait_for_whole_report(NAME, 40)
        jobs.remove_all()
