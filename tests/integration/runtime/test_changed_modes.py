"""Watermarks and output modes change over state that is kept: what `check` says is what comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests import jobs
from tests.integration.core import core
from tests.integration.runtime.embedded import Life, running
from tests.integration.runtime.graphs import SCHEMA, Row, add_rows, job, manifests, numbered, output, rows_of
from tests.integration.runtime.purchases import write_job
from tests.jobs import sql

from streamjob.comparison.graphs import compare
from streamjob.comparison.refusals import OutputModeChanged
from streamjob.comparison.verdicts import Comparison
from streamjob.errors import CannotRestore, ExitCode
from streamjob.job.loading.load import load_job
from streamjob.job.planning.plan import plan
from streamjob.protocol.log.records import JobId
from streamjob.protocol.log.restore import ClaimMode
from streamjob.stored.start_snapshot import opened
from streamjob_runtime.checkpointing.ledger import RestoreFrom
from streamjob_runtime.process.checking.start_check import judged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]

CUT, ROWS = 80, 180
"""How many of the rows, a second apart, the first life reads, and how many there are."""
COUNTS = (
    "SELECT k, unix_seconds(window.start) - 1767268800 AS start, count(*) AS rows FROM events "
    "GROUP BY k, window(at, '1 minute')"
)
AT, NONE = {"column": "at", "delay": "0s"}, None


@dataclass(frozen=True)
class Counting:
    """How a job counts rows by windows.

    Args:
        mode: its output mode.
        watermark: its source's watermark.
    """

    mode: str
    watermark: dict[str, str] | None = None

    def write(self, input_: Path, place: Path) -> Path:
        """Write the job, which reads `input_` and writes below `place`."""
        given: dict[str, Any] = {} if self.watermark is None else {"watermark": self.watermark}
        events = jobs.files("events", input_, SCHEMA, **given)
        spec = job(place, [events], [sql("counts", ["events"], COUNTS, outputMode=self.mode)], ["counts"])
        spec["sinks"][0]["delivery"] = "at-least-once"
        return write_job(place, spec)


@dataclass(frozen=True)
class Case:
    """A change, and what is to become of it.

    Args:
        then: the first life.
        now: the second.
        why: what `check` says of it.
        refused: why the second life is refused.
        again: whether the second life puts out what had been put out before, and what had not been updated since.
    """

    then: Counting
    now: Counting
    why: str
    refused: type[CannotRestore] | None = None
    again: bool = False


CASES = {
    "update to append": Case(
        Counting("update", AT),
        Counting("append", AT),
        "its output mode was update, and is append, which emits",
    ),
    "complete to append": Case(
        Counting("complete", AT), Counting("append", AT), "which emits earlier results once more, as final", again=True
    ),
    "complete to update": Case(Counting("complete", AT), Counting("update", AT), "which emits changes"),
    "append to update": Case(Counting("append", AT), Counting("update", AT), "never be put out", OutputModeChanged),
    "a watermark added": Case(Counting("update"), Counting("update", AT), "it gets a watermark on 'at'"),
    "a watermark taken away": Case(Counting("update", AT), Counting("update"), "its watermark is removed"),
}


def check(spark: SparkSession, file: Path, uri: str, scratch: Path) -> Comparison:
    """Return what `streamjob check` says."""
    loaded = load_job(file)
    with opened(loaded, uri, str(scratch / "none")) as found:
        assert found is not None
        compared = compare(loaded.spec, plan(loaded.spec), found.manifest, found.uri, False)
        if not compared.refusals:
            spark.conf.set("spark.sql.shuffle.partitions", compared.max_parallelism)
            compared = judged(
                spark, scratch / "check", loaded, found, compared, False, JobId("default", "job")
            ).compared
        return compared


def largest(batches: Any) -> dict[tuple[str, int], int]:
    """Return the last count of each window: the largest one."""
    found: dict[tuple[str, int], int] = {}
    for key, start, rows in rows_of(batches):
        found[key, start] = max(rows, found.get((key, start), 0))
    return found


@pytest.mark.parametrize("name", core(CASES, "update to append"))
def test_what_check_says_of_another_mode_or_watermark_is_what_comes_of_it(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    case = CASES[name]
    first, second = tmp_path / "first", tmp_path / "second"
    add_rows(tmp_path / "in", 0, numbered(0, CUT))
    with running(spark, Life(file=case.then.write(tmp_path / "in", first), location=str(first / "s"))) as before:
        before.wait_for(lambda: rows_of(output(first, "counts")).total() >= 3, "the first windows")
        # After the rows, an empty batch ends the windows that the watermark has passed.
        last = 1 if case.then.watermark is not None and case.then.mode != "complete" else 0
        before.wait_for(lambda: before.batch >= last, "the end of the first windows")
        assert before.stop() is ExitCode.OK
    add_rows(tmp_path / "in", 1, [*numbered(CUT, ROWS - CUT), Row("end", 0, 9999)])
    newest = manifests(first / "s" / "default" / "job")[-1]
    uri = (first / f"s/default/job/checkpoints/{newest.epoch}-{newest.id}/manifest.json").as_uri()

    file = case.now.write(tmp_path / "in", second)
    compared = check(spark, file, uri, tmp_path)
    life = Life(file=file, location=str(second / "s"), restore_from=RestoreFrom(uri, ClaimMode.NO_CLAIM))
    assert case.why in " ".join(each.why for each in compared.findings)
    if case.refused is not None:
        assert [type(each) for each in compared.refusals] == [case.refused]
        with running(spark, life) as refused, pytest.raises(case.refused):
            refused.wait()
        return
    assert compared.refusals == ()
    with running(spark, life) as after:
        after.wait_for(lambda: largest(output(second, "counts")).get(("k2", 120), 0) == 20, "the last window")
        assert after.stop() is ExitCode.OK
    made = largest(output(second, "counts"))
    # The second life goes on with the counts of the windows that were open.
    assert {window: rows for window, rows in made.items() if window[1] in (60, 120)} == {
        (f"k{key}", start): 20 for key in range(3) for start in (60, 120)
    }
    assert any(window[1] == 0 for window in made) is case.again
