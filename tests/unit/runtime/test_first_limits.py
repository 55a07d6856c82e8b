"""The first batch of a source has a limit, and a limit of the job is the highest one."""

from __future__ import annotations

import pytest

from streamjob.protocol.batch_size import Bounds
from streamjob_runtime.chain.sources.batch_limits import FIRST_BYTES, FIRST_RECORDS, channel_bounds, with_first_limit


def test_a_source_without_a_limit_gets_one_for_each_task_slot() -> None:
    assert with_first_limit("kafka", {}, 2) == (
        {"maxOffsetsPerTrigger": str(2 * FIRST_RECORDS)},
        Bounds(2 * FIRST_RECORDS),
    )
    assert with_first_limit("csv", {"path": "/in"}, 3) == (
        {"path": "/in", "maxBytesPerTrigger": str(3 * FIRST_BYTES)},
        Bounds(3 * FIRST_BYTES),
    )


def test_the_jobs_own_limit_is_the_highest_one_however_it_is_written() -> None:
    options, bounds = with_first_limit("kafka", {"maxoffsetspertrigger": "500"}, 2)
    assert (options, bounds) == ({"maxOffsetsPerTrigger": "500"}, Bounds(500, 500))

    options, bounds = with_first_limit("kafka", {"maxOffsetsPerTrigger": "10000000"}, 2)
    assert (options, bounds) == (
        {"maxOffsetsPerTrigger": str(2 * FIRST_RECORDS)},
        Bounds(2 * FIRST_RECORDS, 10_000_000),
    )

    assert with_first_limit("json", {"maxFilesPerTrigger": "7"}, 2) == ({"maxFilesPerTrigger": "7"}, Bounds(7, 7))
    assert with_first_limit("json", {"MaxBytesPerTrigger": "70"}, 2) == ({"maxBytesPerTrigger": "70"}, Bounds(70, 70))


def test_a_batch_of_kafka_has_at_least_the_records_that_the_job_waits_for() -> None:
    _, bounds = with_first_limit("kafka", {"minOffsetsPerTrigger": "1000000"}, 1)

    assert bounds == Bounds(1_000_000, None, 1_000_000)


@pytest.mark.parametrize(
    ("form", "options"),
    [
        ("rate", {}),
        ("parquet", {"maxFilesPerTrigger": "many"}),
        ("parquet", {"maxBytesPerTrigger": "10m"}),
    ],
)
def test_other_sources_and_options_stay_as_they_are(form: str, options: dict[str, str]) -> None:
    assert with_first_limit(form, options, 2) == (options, None)


def test_a_channel_begins_with_no_more_than_the_jobs_limit() -> None:
    assert channel_bounds(1000, 4) == Bounds(1000, 1000)
    assert channel_bounds(1_000_000, 4) == Bounds(4 * FIRST_RECORDS, 1_000_000)
