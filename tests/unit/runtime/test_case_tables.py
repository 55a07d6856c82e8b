"""The tables of upper and lower case are loaded early for a job that is known to need them."""

from __future__ import annotations

import pytest
from tests.jobs import job_spec, source, sql

from streamjob_runtime.spark.case_tables import needs_tables


@pytest.mark.parametrize("query", ["SELECT upper(name) FROM rows", "SELECT a FROM rows WHERE LOWER (b) = 'x'"])
def test_a_query_that_changes_the_case_of_texts_needs_them(query: str) -> None:
    assert needs_tables(job_spec(sql("asked", "rows", query), sources=[source("rows")]))


@pytest.mark.parametrize("query", ["SELECT upper_bound FROM rows", "SELECT count(*) FROM rows"])
def test_other_queries_do_not(query: str) -> None:
    assert not needs_tables(job_spec(sql("asked", "rows", query), sources=[source("rows")]))
