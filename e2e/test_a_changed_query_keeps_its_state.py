"""A user changes a query whose state has to follow: what cannot is held, and what can is migrated by the upgrade."""

from __future__ import annotations

import pytest
from e2e.harness.cluster import Object
from e2e.harness.controller import StreamJobs, condition, last_checkpoint
from e2e.harness.reading import wait_until_read
from e2e.harness.snapshots import manifest_of
from e2e.harness.visits import visits, visits_job

pytestmark = pytest.mark.timeout(900)

NAME = "visits"


def grouped_by(*keys: str) -> Object:
    """Return the job with other columns in the key of its state."""
    job = visits_job(NAME, bounded=False)
    (counts,) = job["operators"]
    query = f"{counts['sql'].partition(' GROUP BY ')[0]} GROUP BY {', '.join(keys)}"
    return {**job, "operators": [{**counts, "sql": query}]}


def test_an_upgrade_migrates_the_state_of_a_query_or_is_held_with_what_to_add(jobs: StreamJobs) -> None:
    jobs.namespace.write(visits(0, 20))
    jobs.apply(NAME)
    jobs.wait_for_state(NAME, "STABLE")
    wait_until_read(jobs, NAME, 20)

    jobs.change(NAME, job=grouped_by("window(seen, '10 seconds')", "page", "minute(seen)"))
    held = jobs.wait(
        NAME, lambda status: condition(status, "PreflightPassed")["status"] == "False", what="failed preflight"
    )
    message = condition(held, "PreflightPassed")["message"]
    assert "does not fit what it keeps: its keys were" in message
    assert "migrate: {counts: {from: " in message
    assert condition(held, "Running")["status"] == "True"

    jobs.change(NAME, job=grouped_by("page", "window(seen, '10 seconds')"))
    after = jobs.wait_until_ready(NAME)
    assert after["jobStatus"]["attempt"] == 2
    assert after["restoredFrom"]["kind"] == "savepoint"
    later = jobs.wait_for_checkpoint(NAME, last_checkpoint(after) + 1)
    (record,) = manifest_of(jobs, later["checkpoint"]["lastCompleted"]["path"])["graph"]["migrations"]
    assert record["operators"] == ["counts"]
    assert record["rowsBefore"] == record["rowsAfter"] > 0

    jobs.namespace.write(visits(20, 40))
    jobs.wait_for_whole_report(NAME, 40)
