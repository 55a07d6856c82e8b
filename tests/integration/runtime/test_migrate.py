"""`streamjob migrate`: state in a new form as a savepoint, from which the changed job goes on."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.runtime.embedded import Life, running
from tests.integration.runtime.graphs import (
    Row,
    add_rows,
    difference,
    job,
    manifests,
    numbered,
    output,
    rows_of,
    source,
)
from tests.integration.runtime.killing import killer
from tests.integration.runtime.processes import PROGRAM
from tests.integration.runtime.purchases import write_job
from tests.integration.runtime.stories import NEVER, records_read
from tests.jobs import sql

from streamjob.comparison.snapshot_job import MIGRATIONS
from streamjob.comparison.starting import ComparedStart, compare_start
from streamjob.errors import ExitCode
from streamjob.job.loading.load import load_job
from streamjob.protocol.lifecycle import JobState
from streamjob.protocol.log.records import JobId
from streamjob.protocol.manifests.stored_manifests import SnapshotMissing
from streamjob.stored.locations import find_snapshot
from streamjob.stored.reading import read_snapshot
from streamjob.stored.verify import verify
from streamjob_runtime.checkpointing.ledger import RestoreFrom
from streamjob_runtime.checkpointing.savepoints import Savepoint
from streamjob_runtime.process.checking.migration import Migrator
from streamjob_runtime.process.checking.start_check import SparkToAsk
from streamjob_runtime.restoring import empty_states, state_matching

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

CUT, ROWS = 60, 120
END = [Row("end", 0, 9999)]
KEYED = "SELECT k, unix_seconds(window.start) AS start, {} FROM events GROUP BY k, window(at, '1 minute')"
THEN = KEYED.format("count(*) AS rows, sum(n) AS total")
NOW = KEYED.format("max(n) AS most, sum(n) AS total, count(*) AS rows")
REORDERED = KEYED.format("sum(n) AS total, count(*) AS rows")


JOB = JobId("default", "job")
ROOT = Path(__file__).resolve().parents[3]
UPDATED = "SELECT {0}, count(*) AS rows FROM events GROUP BY {0}"
GATES = [("a", 0, 0, "x"), ("a", 1, 0, "y"), ("b", 2, 0, "x"), ("c", 3, 0, "x")]


class Story:
    """A job whose query changes while windows are open."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self.spark = spark
        self.directory = directory
        self.location = directory / "snapshots"
        self.files = 0
        self.delay = "5s"
        self.mode = "append"
        self.first: list[dict[str, Any]] = []

    def life(self, query: str, snapshot: str = "latest", **fields: Any) -> Life:
        sources = [source("events", self.directory / "events", delay=self.delay)]
        operators = [
            *self.first,
            sql("counts", [each["name"] for each in self.first] or ["events"], query, outputMode=self.mode),
        ]
        spec = job(self.directory, sources, operators, ["counts"], checkpointing={"interval": "1h"}, **fields)
        if self.mode == "update":
            spec["sinks"][0]["delivery"] = "at-least-once"
        return Life(
            file=write_job(self.directory, spec),
            location=str(self.location),
            restore_from=RestoreFrom(snapshot),
            restarts=NEVER,
        )

    def live(self, life: Life, *more: list[Row]) -> None:
        """Run the job until it has read some files, and stop it behind a checkpoint."""
        for rows in more:
            add_rows(self.directory / "events", self.files, rows)
            self.files += 1
        count = sum(map(len, more))
        with running(self.spark, life) as lives:
            lives.wait_for(lambda: lives.state is JobState.RUNNING, "the job to run")
            lives.wait_for(lambda: records_read(lives) >= count, f"{count} rows")
            assert lives.stop() is ExitCode.OK

    def migrate(
        self, query: str, *, write: bool, target: str | None = None, allow: bool = False, **fields: Any
    ) -> tuple[ComparedStart, Migrator]:
        scratch = self.directory / f"scratch-{len(list(self.directory.glob('scratch-*')))}"
        ask = SparkToAsk(lambda *_: (self.spark, scratch))
        migrator = Migrator(ask, str(self.location), target, write=write, strict=False, note=lambda text: None)
        loaded = load_job(self.life(query, **fields).file)
        before = self.spark.conf.get("spark.sql.shuffle.partitions")
        try:
            start = compare_start(loaded, "latest", str(self.location), JobId("default", "job"), allow, migrator)
        finally:
            self.spark.conf.set("spark.sql.shuffle.partitions", str(before))
        return start, migrator

    def stored(self) -> dict[str, int]:
        """Return all stored files, and their sizes."""
        return {str(each): each.stat().st_size for each in self.location.rglob("*") if each.is_file()}


@pytest.fixture
def story(spark: SparkSession, tmp_path: Path) -> Story:
    told = Story(spark, tmp_path)
    told.live(told.life(THEN), numbered(0, CUT))
    return told


def test_a_dry_run_tells_what_comes_of_the_state_and_writes_nothing(story: Story) -> None:
    before = story.stored()

    start, migrator = story.migrate(NOW, write=False)

    assert start.compared.refusals == ()
    assert {each.uid: each.verdict.value for each in start.compared.findings}["counts"] == "migrated"
    report = migrator.report
    assert report.savepoint is None
    (record,) = report.records
    assert (record.operators, record.how, record.chain) == (("counts",), "inferred", "counts")
    assert record.rows_before == record.rows_after > 0
    assert record.checksum_before != record.checksum_after
    assert record.gaps, "an added aggregate begins empty"
    (seen,) = report.seen
    assert (seen.merged, seen.vanished) == ([], [])
    assert seen.samples
    for each in seen.samples:
        assert list(each["before"]) == ["k", "window", "count", "sum"]
        assert each["after"] == each["before"] | {"max": None}
    assert report.bytes_after > 0
    assert story.stored() == before


def test_a_dry_run_names_the_windows_that_merge(spark: SparkSession, tmp_path: Path) -> None:
    story = Story(spark, tmp_path)
    # The watermark stays in the first of the minutes that make up five.
    story.delay = "630s"
    story.live(story.life(THEN), [Row("a", 0, 0), Row("a", 1, 70), Row("b", 2, 0)])

    _, migrator = story.migrate(THEN.replace("1 minute", "5 minutes"), write=False)

    (seen,) = migrator.report.seen
    window = {"start": "2026-01-01T12:00:00.000000Z", "end": "2026-01-01T12:05:00.000000Z"}
    assert seen.merged == [{"key": {"k": "a", "window": window}, "rows": 2}]
    assert seen.vanished == []


def test_a_dry_run_names_the_keys_that_merge_or_vanish_by_a_query(spark: SparkSession, tmp_path: Path) -> None:
    story = Story(spark, tmp_path)
    story.mode = "update"
    story.live(story.life(UPDATED.format("k, gate")), [Row(*each) for each in GATES])
    query = "SELECT k, sum(count) AS count FROM state WHERE k <> 'c' GROUP BY k"

    _, migrator = story.migrate(UPDATED.format("k"), write=False, migrate={"counts": {"sql": query}})

    (record,), (seen,) = migrator.report.records, migrator.report.seen
    assert (record.rows_before, record.rows_after) == (4, 2)
    assert seen.merged == [{"key": {"k": "a"}, "rows": 2}]
    assert seen.vanished == [{"key": {"k": "c"}}]


@pytest.mark.parametrize(("refused", "carried"), [("once", ["counts"]), ("counts", [])])
def test_the_verdict_of_one_state_stays_when_spark_refuses_another_that_may_begin_empty(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str, carried: list[str]
) -> None:
    story = Story(spark, tmp_path)
    story.first = [sql("once", ["events"], "SELECT DISTINCT k, n, at FROM events")]
    story.live(story.life(THEN.replace("events", "once")), numbered(0, CUT))
    number, emptied = ("counts", "once").index(refused), set[int]()
    begin = empty_states.begin_empty

    def begin_empty(*given: Any) -> None:
        emptied.update(given[4])
        begin(*given)

    def asked(*given: Any) -> str | None:
        return None if number in {*emptied, *given[-1]} else "it does not fit"

    monkeypatch.setattr(state_matching, "begin_empty", begin_empty)
    monkeypatch.setattr(state_matching, "_asked", asked)

    start, migrator = story.migrate(REORDERED.replace("events", "once"), write=False, allow=True)

    verdicts = {each.uid: each.verdict.value for each in start.compared.findings}
    assert verdicts[refused] == "dropped"
    assert [uid for uid, verdict in verdicts.items() if verdict == "migrated"] == carried
    assert [each.operators for each in migrator.report.records] == [(each,) for each in carried]
    assert len(migrator.report.seen) == len(carried)


def test_the_changed_job_goes_on_from_the_savepoint_and_knows_why_its_state_changed(story: Story) -> None:
    before = story.stored()

    _, migrator = story.migrate(REORDERED, write=True)

    savepoint = migrator.report.savepoint
    assert savepoint is not None
    assert {name: size for name, size in story.stored().items() if name in before} == before
    place = find_snapshot(savepoint)
    assert place is not None
    snapshot = read_snapshot(place)
    assert snapshot.manifest is not None
    assert verify([snapshot]).whole
    assert [each["operators"] for each in snapshot.manifest.graph[MIGRATIONS]] == [["counts"]]
    story.live(story.life(REORDERED, savepoint), numbered(CUT, ROWS - CUT), END, END)
    newest = manifests(story.location / "default" / "job")[-1]
    assert newest.graph[MIGRATIONS] == snapshot.manifest.graph[MIGRATIONS], "the start has not done it again"
    # The first life has published under the former columns what had ended by then: nothing, in one minute.
    expected = made_by(story.spark, REORDERED, numbered(0, ROWS))
    made = rows_of(output(story.directory, "counts"))
    assert difference(expected, Counter({row: times for row, times in made.items() if row[0] != "end"})) == ""


def test_a_start_keeps_the_record_of_what_it_has_changed_itself(story: Story) -> None:
    story.live(story.life(REORDERED), numbered(CUT, 10))
    story.live(story.life(REORDERED), numbered(CUT + 10, 10))

    newest = manifests(story.location / "default" / "job")[-1]
    (record,) = newest.graph[MIGRATIONS]
    assert (record["operators"], record["how"]) == (["counts"], "inferred")
    assert record["rowsBefore"] == record["rowsAfter"] > 0


def test_a_migration_that_is_interrupted_leaves_no_savepoint_and_can_be_repeated(
    story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Savepoint, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            story.migrate(NOW, write=True, target=str(tmp_path / "savepoints"))
    assert not [each for each in (tmp_path / "savepoints").rglob("*") if each.is_file()]

    _, migrator = story.migrate(NOW, write=True, target=str(tmp_path / "savepoints"))

    assert migrator.report.savepoint is not None
    assert migrator.report.savepoint.startswith((tmp_path / "savepoints").as_uri())


def test_what_a_killed_migration_leaves_is_no_savepoint_and_the_next_one_writes_its_own(
    story: Story, tmp_path: Path
) -> None:
    # The last step: all files are there.
    killed = command(story, NOW, {"KILLED_AT": "streamjob_runtime.checkpointing.savepoints Savepoint.write 0"})
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    (left,) = (story.location / "default" / "job" / "savepoints").iterdir()
    assert [each for each in left.rglob("*") if each.is_file()]
    with pytest.raises(SnapshotMissing):
        compare_start(load_job(story.life(NOW).file), left.as_uri(), str(story.location), JOB, False, None)

    again = command(story, NOW, {})

    assert again.returncode == 0, again.stderr
    assert re.search(r'\{"k": "k0", "window": .*"count": \d+.*\} -> \{.*"max": null.*\}', again.stdout), again.stdout
    savepoint = again.stdout.split("--from ")[-1].strip()
    assert left.name not in savepoint
    place = find_snapshot(savepoint)
    assert place is not None
    assert verify([read_snapshot(place)]).whole


def command(story: Story, query: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run `streamjob migrate` for a changed query."""
    if not (story.directory / "killer").exists():
        killer(story.directory)
    paths = os.pathsep.join((str(story.directory / "killer"), str(ROOT)))
    return subprocess.run(
        [PROGRAM, "migrate", story.life(query).file, "--from", "latest", "--location", story.location, "--name", "job"],
        env={**os.environ, "PYTHONPATH": paths, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_a_job_whose_state_has_its_form_gets_no_savepoint(story: Story) -> None:
    before = story.stored()

    start, migrator = story.migrate(THEN, write=True)

    assert start.compared.refusals == ()
    assert migrator.report.records == []
    assert migrator.report.savepoint is None
    assert story.stored() == before


def made_by(spark: SparkSession, query: str, rows: list[Row]) -> Counter[Any]:
    """Return the result of a query over rows, as a batch."""
    session = spark.newSession()
    frame = session.createDataFrame(
        [tuple(row.fields().values()) for row in rows], "k STRING, n BIGINT, at STRING, gate STRING"
    )
    frame.selectExpr("k", "n", "CAST(at AS TIMESTAMP) AS at").createOrReplaceTempView("events")
    return Counter(tuple(row) for row in session.sql(query).collect())
