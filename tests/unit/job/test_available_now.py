"""A job runs up to what is there only if its sources tell what that is, and if another run is to read on."""

from __future__ import annotations

import pytest
from tests.jobs import job_spec, source, sql

from streamjob.job.planning.available_now import NotAvailableNow, check_available_now

KEPT = sql("kept", "rows")
FILES = source("rows", "json", "a INT", "in")
TOPIC = source("rows", "kafka", options={"kafka.bootstrap.servers": "broker:9092", "subscribe": "in"})
TABLE = source("rows", "delta", path="table")


@pytest.mark.parametrize("read", [FILES, TOPIC, TABLE], ids=["files", "topic", "table"])
def test_files_topics_and_lake_tables_tell_what_is_there(read: dict[str, object]) -> None:
    check_available_now(job_spec(KEPT, sources=[read]))


def test_a_source_that_makes_rows_is_refused_by_name() -> None:
    with pytest.raises(NotAvailableNow, match="source 'rows' has the format 'rate', which does not tell"):
        check_available_now(job_spec(KEPT, sources=[source("rows")]))


def test_a_job_that_its_first_run_would_finish_is_refused() -> None:
    with pytest.raises(NotAvailableNow, match="all its sources are bounded"):
        check_available_now(job_spec(KEPT, sources=[{**FILES, "bounded": True}]))


def test_a_bounded_source_may_be_beside_others() -> None:
    both = sql("kept", ["rows", "more"])
    check_available_now(job_spec(both, sources=[FILES, {**FILES, "name": "more", "bounded": True}]))
