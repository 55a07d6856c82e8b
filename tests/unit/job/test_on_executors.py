"""A job with a part that does not work on executors is refused with the part and the reason."""

from __future__ import annotations

from typing import Any

import pytest

from streamjob.job.model.spec import JobSpec
from streamjob.job.planning.on_executors import NotOnExecutors, check_on_executors
from streamjob.job.planning.plan import plan


def job(source: dict[str, Any] | None = None, sink: dict[str, Any] | None = None, **changes: Any) -> JobSpec:
    return JobSpec.model_validate(
        {
            "name": "flights",
            "sources": [{"name": "rows", "format": "rate", **(source or {})}],
            "operators": [{"name": "kept", "inputs": ["rows"], "sql": "SELECT * FROM rows"}],
            "sinks": [{"name": "out", "input": "kept", "format": "console", **(sink or {})}],
            **changes,
        }
    )


def check(spec: JobSpec, *, local_files: bool = False) -> None:
    check_on_executors(spec, plan(spec), local_files=local_files)


LOCAL_SOURCE = {"format": "json", "schema": "a INT", "options": {"path": "in"}}
LOCAL_SINK = {"format": "parquet", "options": {"path": "/data/out"}}


def test_a_chain_without_local_files_may_run_on_any_executors() -> None:
    check(job())


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        (job(source=LOCAL_SOURCE), "source 'rows' reads files of a local path"),
        (job(sink=LOCAL_SINK), "sink 'out' writes files to a local path"),
    ],
)
def test_files_of_one_machine_are_refused_where_executors_are_elsewhere(spec: JobSpec, named: str) -> None:
    check(spec, local_files=True)

    with pytest.raises(NotOnExecutors, match=named):
        check(spec)


def test_topics_may_be_read_and_written_from_anywhere() -> None:
    topic = {"kafka.bootstrap.servers": "broker:9092"}
    source = {"format": "kafka", "options": {**topic, "subscribe": "in"}}
    check(job(source=source, sink={"format": "kafka", "options": {**topic, "topic": "out"}}))


def test_files_in_a_bucket_may_be_read_from_anywhere() -> None:
    check(job(source={**LOCAL_SOURCE, "options": {"path": "s3://bucket/in"}}))


def test_chains_that_hand_rows_on_may_run_on_executors() -> None:
    operators = [
        {"name": "kept", "inputs": ["rows"], "sql": "SELECT * FROM rows", "chain": False},
        {"name": "more", "inputs": ["kept"], "sql": "SELECT * FROM kept", "chain": False},
    ]

    check(job(operators=operators, sink={"input": "more"}))
