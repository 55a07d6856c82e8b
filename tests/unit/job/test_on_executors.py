"""A job with a part that does not work on executors is refused with the part and the reason."""

from __future__ import annotations

import pytest
from tests.jobs import job_spec, sink, source, sql

from streamjob.job.model.spec import JobSpec
from streamjob.job.planning.on_executors import NotOnExecutors, check_on_executors


def check(spec: JobSpec, *, local_files: bool = False) -> None:
    check_on_executors(spec, local_files=local_files)


KEPT = sql("kept", "rows")


def test_a_chain_without_local_files_may_run_on_any_executors() -> None:
    check(job_spec(KEPT, sources=[source("rows")]))


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        (job_spec(KEPT, sources=[source("rows", "json", "a INT", "in")]), "source 'rows' reads files of a local path"),
        (
            job_spec(KEPT, sources=[source("rows")], sinks=[sink("kept", "parquet", "/data/out", name="out")]),
            "sink 'out' writes files to a local path",
        ),
    ],
)
def test_files_of_one_machine_are_refused_where_executors_are_elsewhere(spec: JobSpec, named: str) -> None:
    check(spec, local_files=True)

    with pytest.raises(NotOnExecutors, match=named):
        check(spec)


def test_topics_may_be_read_and_written_from_anywhere() -> None:
    topic = {"kafka.bootstrap.servers": "broker:9092"}
    read = source("rows", "kafka", options={**topic, "subscribe": "in"})
    check(job_spec(KEPT, sources=[read], sinks=[sink("kept", "kafka", options={**topic, "topic": "out"})]))


def test_files_in_a_bucket_may_be_read_from_anywhere() -> None:
    check(job_spec(KEPT, sources=[source("rows", "json", "a INT", "s3://bucket/in")]))


def test_chains_that_hand_rows_on_may_run_on_executors() -> None:
    check(job_spec(sql("kept", "rows", chain=False), sql("more", "kept", chain=False), sources=[source("rows")]))
