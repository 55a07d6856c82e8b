"""State is rewritten for another number of partitions when the job asks for it, and only used if it came through."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.runtime.embedded import EmbeddedJob, Life, life_in, running
from tests.integration.runtime.graphs import BEGIN, Row, add_rows, difference, job, manifests, output, rows_of, source
from tests.integration.runtime.processes import JobRuns
from tests.integration.runtime.purchases import Rows, line_rows, table_rows
from tests.integration.runtime.shapes import GAP, PAIRS, SESSIONS, WINDOWS
from tests.integration.runtime.stories import records_read
from tests.jobs import sql

from streamjob.comparison.graphs import compare
from streamjob.comparison.rewrite_checks import StateNotRewritable, StateRewrittenWrongly
from streamjob.errors import ExitCode, StreamJobError
from streamjob.ids import BatchId, TriggerId
from streamjob.job.loading.load import load_job
from streamjob.job.planning.plan import plan
from streamjob.protocol.lifecycle import JobState
from streamjob.protocol.log.records import JobId
from streamjob.snapshot.manifest import Manifest
from streamjob.stored.start_snapshot import opened as found_to_start_from
from streamjob_runtime.process.checking.start_check import judged
from streamjob_runtime.restoring import rewriting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark]

KEYS = 6
ROWS = 12
"""Rows in a file; all that keeps state has some of each key from one file to the next."""
NOON = int(BEGIN.timestamp())
SHAPES = "tests.integration.runtime.shapes"


@pytest.fixture(autouse=True)
def own_partitions(spark: SparkSession) -> Iterator[None]:
    """Give the session back with the number of partitions that it had."""
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    yield
    spark.conf.set(name, str(before))


def rows_in(files: int) -> list[Row]:
    """Return the rows of the given number of files: half a second apart, with a much longer gap after the thirtieth."""
    return [Row(f"k{i % KEYS}", i // KEYS, i / 2 + (20 if i >= 30 else 0)) for i in range(files * ROWS)]


def add_file(directory: Path, number: int) -> None:
    add_rows(directory / "in", number, rows_in(number + 1)[number * ROWS :])


def distinct(rows: DataFrame) -> DataFrame:
    """Return each key and half number once; its two rows are of different files."""
    return _halved(rows).dropDuplicates(["k", "half"]).select("k", "half")


def distinct_for_a_while(rows: DataFrame) -> DataFrame:
    """Return the same, from state that is given up in time."""
    return _halved(rows).dropDuplicatesWithinWatermark(["k", "half"]).select("k", "half")


def _halved(rows: DataFrame) -> DataFrame:
    return rows.selectExpr("k", "(n + 1) div 2 AS half", "at")


OPERATORS: list[dict[str, Any]] = [
    sql("windows", ["events"], WINDOWS.format("events")),
    sql("sessions", ["events"], SESSIONS.replace("held_events", "events")),
    sql("pairs", ["events"], PAIRS.format("events", "LEFT", "events")),
    {"name": "distinct", "inputs": ["events"], "python": f"{__name__}:distinct"},
    {"name": "distinct_for_a_while", "inputs": ["events"], "python": f"{__name__}:distinct_for_a_while"},
    {"name": "by_timeouts", "inputs": ["events"], "python": f"{SHAPES}:timeouts"},
    {"name": "by_timers", "inputs": ["events"], "python": f"{SHAPES}:timers"},
]
"""Every way to keep state whose state can be rewritten."""


def life(directory: Path, operators: list[dict[str, Any]], **changes: Any) -> Life:
    """Return the life of a job that reads what is in `directory`, at first with two state partitions."""
    sources = [source("events", directory / "in", delay="30s")]
    outputs = [each["name"] for each in operators]
    spec = job(directory, sources, operators, outputs, checkpointing={"interval": "1h"}, **changes)
    return life_in(directory, spec)


def with_partitions(before: Life, partitions: int) -> Life:
    return replace(before, overrides=(f"maxParallelism={partitions}",))


def process(running_job: EmbeddedJob, rows: int) -> None:
    """Let a job read the given number of rows."""
    running_job.wait_for(lambda: running_job.state is JobState.RUNNING, "all chains")
    running_job.wait_for(lambda: records_read(running_job) >= rows, f"{rows} rows")


def expected_rows(files: int) -> dict[str, Counter[Any]]:
    """Return the operators' results for the given number of files."""
    rows = rows_in(files)
    windows = Counter((row.k, NOON + int(row.second) // 10 * 10) for row in rows)
    halves: Counter[Any] = Counter({(row.k, (row.n + 1) // 2) for row in rows})
    times = {(row.k, row.n): row.second for row in rows}
    near = {(k, n): times.get((k, n - 1), -100.0) >= second - 10 for (k, n), second in times.items()}
    pairs: Counter[Any] = Counter({(k, n, n - 1 if near[k, n] else None) for k, n in times})
    sessions: Counter[Any] = Counter()
    for k in {row.k for row in rows}:
        seconds = [row.second for row in rows if row.k == k]
        begins = [at for at, before in zip(seconds, [-100.0, *seconds], strict=False) if at - before > GAP]
        for begin, end in zip(begins, [*begins[1:], 1e9], strict=True):
            sessions[k, NOON + int(begin), sum(begin <= at < end for at in seconds)] += 1
    return {
        "windows": Counter((*window, count) for window, count in windows.items()),
        "sessions": sessions,
        "by_timeouts": sessions,
        "by_timers": sessions,
        "pairs": pairs,
        "distinct": halves,
        "distinct_for_a_while": halves,
    }


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_all_that_keeps_state_goes_on_with_more_partitions_and_with_fewer(spark: SparkSession, tmp_path: Path) -> None:
    first = life(tmp_path, OPERATORS)

    taken = []
    for number, partitions in enumerate((2, 4, 3)):
        add_file(tmp_path, 2 * number)
        add_file(tmp_path, 2 * number + 1)
        with running(spark, with_partitions(first, partitions)) as running_job:
            process(running_job, 2 * ROWS)
            last = number == 2
            running_job.control.stop(savepoint=True, location=None, drain=last, trigger_id=TriggerId("stop"))
            assert running_job.wait() is ExitCode.OK
        taken.append(manifests(tmp_path / "snapshots" / "default" / "job")[-1])

    names = [operator["name"] for operator in OPERATORS]
    rows = expected_rows(6)
    assert {name: difference(rows[name], rows_of(output(tmp_path, name))) for name in names} == dict.fromkeys(names, "")
    assert [manifest.graph["maxParallelism"] for manifest in taken] == [2, 4, 3]
    # A snapshot contains the complete rewritten state, and no file of the original.
    assert [state_partitions(manifest) for manifest in taken] == [{0, 1}, {0, 1, 2, 3}, {0, 1, 2}]


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_while_it_rewrites_it_begins_anew_from_the_same_snapshot(
    runs: JobRuns, expected: Rows, spark: SparkSession
) -> None:
    first = runs.start()
    runs.wait_for_progress(0, first)
    first.kill()
    before = runs.completions()[-1]

    again = runs.start("--max-parallelism", "4")
    runs.wait(lambda: rewrites(runs), "rewriting of the state", again)
    again.kill()
    assert runs.completions()[-1] == before

    second = runs.start("--max-parallelism", "4")
    runs.wait_for_progress(runs.furthest(), second)
    second.kill()
    assert last_manifest(runs).graph["maxParallelism"] == 4
    last = runs.start("--max-parallelism", "3")
    assert last.wait() == 0, last.output()

    assert last_manifest(runs).graph["maxParallelism"] == 3
    assert table_rows(spark, runs.file.parent / "table") == expected
    assert line_rows(spark, runs.file.parent / "lines") == expected


@pytest.fixture
def stopped(spark: SparkSession, tmp_path: Path) -> Life:
    """The life of a job that was stopped with open windows in two state partitions."""
    add_file(tmp_path, 0)
    before = life(tmp_path, OPERATORS[:1])
    stop_behind_batch(spark, before, 0)
    return before


@pytest.mark.slow
def test_state_that_does_not_come_through_unchanged_is_not_used(
    spark: SparkSession, tmp_path: Path, stopped: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewrite = rewriting._State._repartition

    def elsewhere(state: rewriting._State, partitions: int) -> BatchId:
        return rewrite(state, partitions + 1)

    with monkeypatch.context() as wrong:
        wrong.setattr(rewriting._State, "_repartition", elsewhere)
        assert isinstance(refused(spark, with_partitions(stopped, 4)), StateRewrittenWrongly)
    with running(spark, with_partitions(stopped, 4)) as running_job:
        process(running_job, 0)
        running_job.control.stop(savepoint=True, location=None, drain=True, trigger_id=TriggerId("drain"))
        assert running_job.wait() is ExitCode.OK

    assert not difference(expected_rows(1)["windows"], rows_of(output(tmp_path, "windows")))


@pytest.mark.parametrize(
    ("query", "mode", "reason"),
    [
        ("SELECT k, n FROM events LIMIT 5", "append", "globalLimit 0 of chain 'kept' .* no way to rewrite"),
        ("SELECT count(*) AS n FROM events", "update", "stateStoreSave 0 of chain 'kept' .* it has no key"),
    ],
    ids=["limit", "total"],
)
def test_state_that_cannot_be_rewritten_is_refused_and_the_job_goes_on_as_it_was(
    spark: SparkSession, tmp_path: Path, query: str, mode: str, reason: str
) -> None:
    add_file(tmp_path, 0)
    kept = {**sql("kept", ["events"], query), "outputMode": mode}
    nothing = {"name": "nothing", "input": "kept", "format": "noop"}
    before = life(tmp_path, [kept], sinks=[nothing])
    stop_behind_batch(spark, before, 0)

    error = refused(spark, with_partitions(before, 4))

    assert isinstance(error, StateNotRewritable)
    assert re.search(reason, error.what)
    with pytest.raises(StateNotRewritable, match=reason):
        check(spark, with_partitions(before, 4), tmp_path / "check")
    add_file(tmp_path, 1)
    stop_behind_batch(spark, before, 1)


def stop_behind_batch(spark: SparkSession, once: Life, batch: int) -> None:
    """Let a job publish a batch, and stop it."""
    with running(spark, once) as running_job:
        running_job.wait_for(lambda: running_job.batch >= batch, f"batch {batch}")
        assert running_job.stop() is ExitCode.OK


def refused(spark: SparkSession, once: Life) -> StreamJobError:
    """Start a job that must not get far; return what is said."""
    with running(spark, once) as running_job, pytest.raises(StreamJobError) as error:
        running_job.wait()
    assert error.value.exit_code is ExitCode.CANNOT_RESTORE
    return error.value


def check(spark: SparkSession, once: Life, scratch: Path) -> None:
    """Ask as `streamjob check` does."""
    loaded = load_job(once.file, once.overrides)
    with found_to_start_from(loaded, "latest", once.location, name=once.name) as found:
        assert found is not None
        compared = compare(loaded.spec, plan(loaded.spec), found.manifest, found.uri, False)
        spark.conf.set("spark.sql.shuffle.partitions", compared.max_parallelism)
        judged(spark, scratch, loaded, found, compared, False, JobId("default", once.name))


def rewrites(runs: JobRuns) -> bool:
    """Whether state is being rewritten: Spark has planned the batch that has the new state."""
    checkpoints = (runs.file.parent / "work").glob(f"{runs.epoch()}/*/checkpoint")
    return any(4 in map(_partitions, (each / "offsets").glob("[0-9]*")) for each in checkpoints)


def _partitions(entry: Path) -> int:
    return int(json.loads(entry.read_text().split("\n")[1])["conf"]["spark.sql.shuffle.partitions"])


def last_manifest(runs: JobRuns) -> Manifest:
    found = runs.manifest(runs.completions()[-1])
    assert found is not None
    return found


def state_partitions(manifest: Manifest) -> set[int]:
    """Return the numbers of the partitions that a snapshot has files of."""
    paths = [file.path.split("/") for chain in manifest.chains for file in chain.files]
    return {int(path[2]) for path in paths if path[0] == "state" and path[2].isdigit()}
