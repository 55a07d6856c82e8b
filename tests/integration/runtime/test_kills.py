"""A job with a join, an aggregation and two exactly-once sinks is killed, and its output is still that of a batch."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import pytest
from tests.integration.runtime.processes import JobRuns
from tests.integration.runtime.purchases import Rows, line_rows, table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [7])
def test_killed_at_random_moments_the_output_is_that_of_the_batch(
    runs: JobRuns, expected: Rows, spark: SparkSession, seed: int
) -> None:
    chance = random.Random(seed)
    directory = runs.file.parent

    for life in range(3):
        epoch, before = runs.epoch(), runs.furthest()
        process = runs.start()
        if life == 1:
            # During the restore: as soon as the log is claimed, and while Spark starts.
            runs.wait_for_claim(epoch, process)
            time.sleep(chance.uniform(0, 4))
        else:
            runs.wait_for_progress(before, process)
            time.sleep(chance.uniform(0, 1.5))
        process.kill()

    last = runs.start()
    assert last.wait() == 0, last.output()
    assert runs.records()[-1].kind == "final"
    assert table_rows(spark, directory / "table") == expected
    assert line_rows(spark, directory / "lines") == expected
