"""Generated jobs give a batch's rows, with rules for Spark's plans on, off, and changed over state of the rows so far.

Each life of a job reads one file of each source in one batch, so that the watermark that makes rows late is known.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.runtime.embedded import EmbeddedJob, Life, running
from tests.integration.runtime.graphs import difference, job, output, rows_of, source
from tests.integration.runtime.purchases import add_file, write_job
from tests.integration.runtime.spark_settings import setting
from tests.jobs import sql

from streamjob.errors import ExitCode
from streamjob.ids import TriggerId
from streamjob.protocol.lifecycle import JobState
from streamjob.protocol.restarts import RestartPolicy
from streamjob_runtime.spark.gateway import java_query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]

PANES, COUNTS = "spark.streamjob.windowPanes", "spark.streamjob.joinCounts"
BEGIN = datetime(2026, 1, 1, 12, tzinfo=UTC)
LIVES, HOUR, ROWS = 3, 3600, 500
SCHEMA = "life INT, id INT, k STRING, j INT, v INT, at TIMESTAMP"
LONG_AGO = [
    datetime(1, 1, 2),
    datetime(1582, 10, 10, 1),
    datetime(1850, 5, 5, 5, 5, 5),
    datetime(1969, 12, 31, 23, 59, 59),
]
FAR_AHEAD = datetime(9998, 12, 31, 23)
FUNCTIONS = (
    "count(*) AS n, count(v) AS known, sum(v) AS s, avg(v) AS mean, min(v) AS low, max(v) AS high, "
    "count(*) FILTER (WHERE v > 0) AS some, sum(CAST(v AS BIGINT) + id) FILTER (WHERE k = 'a') AS few, "
    "approx_count_distinct(j) AS js, avg(CAST(v AS DECIMAL(20, 2))) AS middle"
)
ON_TIME = "SELECT * FROM all_{0} WHERE late IS NULL OR at > late"
"""The rows of a source that a join does not drop as late."""


def _together(queries: Iterable[str]) -> str:
    rows = "to_json(struct(*), map('ignoreNullFields', 'false'))"
    return " UNION ALL ".join(f"SELECT {at} AS part, {rows} AS row FROM ({each})" for at, each in enumerate(queries))


@dataclass(frozen=True)
class Generated:
    """A job and its input.

    Args:
        delay: of both watermarks, in seconds.
        windows: the arguments of `window` behind the time, and the keys, of each aggregation.
        joins: the queries of the joins.
        seed: of the rows.
    """

    delay: int
    windows: list[tuple[str, str]]
    joins: list[str]
    seed: int

    @classmethod
    def of(cls, seed: int) -> Generated:
        """Return the one that a seed gives: windows of whole panes, windows of uneven panes and any, and two joins."""
        chance = random.Random(seed)
        windows = []
        for whole in (True, False, None):
            slide = chance.choice([7, 60, 300, 1000])
            panes = chance.randint(3, 9) if whole else chance.randint(1, 6)
            length = slide * panes + (chance.randint(1, slide - 1) if whole is False else 0)
            start = chance.choice([0, 0, chance.randrange(slide)])
            arguments = f"'{length} seconds', '{slide} seconds', '{start} seconds'"
            windows.append((arguments, chance.choice(["k", "v % 3", "k, v IS NULL", "id % 2"])))
        kinds = chance.sample(["INNER", "LEFT", "RIGHT", "FULL", "LEFT SEMI"], 2)
        joins = []
        for kind in kinds:
            before, after = chance.randrange(600), chance.randrange(600)
            near = f"b.at BETWEEN a.at - INTERVAL {before} SECOND AND a.at + INTERVAL {after} SECOND"
            more = chance.choice(["", "AND a.v < b.v", "AND a.k <=> b.k"])
            columns = "a.id AS i" if "SEMI" in kind else "a.id AS i, b.id AS m"
            joins.append(f"SELECT {columns} FROM a {kind} JOIN b ON a.j = b.j AND {near} {more}")
        return cls(chance.choice([0, 60, 900]), windows, joins, seed)

    def streamed(self) -> str:
        """Return all queries as one, with a row of JSON for each of theirs."""
        grouped = (
            f"SELECT unix_seconds(window.start) AS s, {keys}, {FUNCTIONS} FROM a GROUP BY window(at, {window}), {keys}"
            for window, keys in self.windows
        )
        return _together([*grouped, *self.joins])

    def batch(self, spark: SparkSession, directory: Path) -> Counter[Any]:
        """Return what Spark makes of all files as a batch without the rules, less the rows that come late."""
        session = spark.newSession()
        session.conf.set(PANES, "false")
        session.conf.set("spark.sql.shuffle.partitions", 2)
        reached = [BEGIN.timestamp() + HOUR * life - self.delay for life in range(LIVES)]
        late = " ".join(f"WHEN {life} THEN timestamp_seconds({int(reached[life])})" for life in range(1, LIVES))
        for name in "ab":
            session.read.schema(SCHEMA).json(str(directory / name)).createOrReplaceTempView("files")
            rows = session.sql(f"SELECT *, CASE life {late} END AS late FROM files WHERE at IS NOT NULL")
            rows.createOrReplaceTempView(f"all_{name}")
            session.sql(ON_TIME.format(name)).createOrReplaceTempView(name)
        grouped = (
            f"SELECT unix_seconds(w.start) AS s, {keys}, {FUNCTIONS} "
            f"FROM (SELECT *, window(at, {window}) AS w FROM all_a) "
            f"WHERE late IS NULL OR w.end > late GROUP BY w, {keys}"
            for window, keys in self.windows
        )
        return Counter(tuple(row) for row in session.sql(_together([*grouped, *self.joins])).collect())

    def write(self, directory: Path, life: int) -> None:
        """Write the files of a life: rows of its hour and of the one before, and one at its end."""
        chance = random.Random(f"{self.seed} {life}")
        end = BEGIN + timedelta(hours=life + 1)
        for name in "ab":
            rows = [self._row(chance, life, number, end) for number in range(ROWS)]
            rows += chance.sample(rows, 20)
            rows.append({"life": life, "id": -1, "k": "end", "j": -7, "v": 0, "at": end.isoformat()})
            add_file(directory / name, life, rows)

    @staticmethod
    def _row(chance: random.Random, life: int, number: int, end: datetime) -> dict[str, Any]:
        at: datetime | None = end - timedelta(seconds=chance.randrange(2 * HOUR))
        if chance.random() < 0.04:
            at = chance.choice([None, *LONG_AGO, FAR_AHEAD if life == LIVES - 1 else None])
        return {
            "life": life,
            "id": life * ROWS + number,
            "k": chance.choice([None, "", "a", "b"]),
            # A few keys of many rows, and many of few.
            "j": chance.choice([None, -1, 0, *[chance.randrange(400)] * 27]),
            "v": chance.choice([None, -(2**31), 2**31 - 1, *range(-4, 5)]),
            "at": at and at.replace(tzinfo=UTC).isoformat(),
        }

    def life(self, directory: Path) -> Life:
        """Write the job."""
        sources = [source(name, directory / name) for name in "ab"]
        for each in sources:
            each |= {"schema": SCHEMA}
            each["watermark"] = {"column": "at", "delay": f"{self.delay}s", "nullEventTime": "drop"}
        spec = job(
            directory, sources, [sql("made", ["a", "b"], self.streamed())], ["made"], checkpointing={"interval": "1h"}
        )
        file, never = write_job(directory / "job", spec), RestartPolicy(attempts=0)
        return Life(file=file, location=str(directory / "snapshots"), restarts=never)


def _queries(job: EmbeddedJob) -> list[Any]:
    chains = job.runner.epoch.chains if job.runner.epoch and job.state is JobState.RUNNING else {}
    return [query for chain in chains.values() for query in chain.queries]


def _has_settled(job: EmbeddedJob) -> bool:
    """Return whether a batch has read the life's files, and the next one has brought the watermark that they leave."""
    reports = [report for query in _queries(job) for report in query.recentProgress]
    read = [int(report["batchId"]) for report in reports if int(report["numInputRows"])]
    return any(read and int(report["batchId"]) > read[0] and "addBatch" in report["durationMs"] for report in reports)


def _rules(job: EmbeddedJob) -> tuple[bool, bool]:
    """Return whether a job aggregates by panes, and counts in memory what joins keep."""
    (query,) = _queries(job)
    last = java_query(query).streamingQuery().lastExecution()
    stores = last.sparkSession().conf().get("spark.sql.streaming.stateStore.providerClass")
    return "pane#" in last.executedPlan().toString(), "JoinCountsProvider" in stores


def _of(part: int, rows: Counter[Any]) -> Counter[Any]:
    return Counter({row: count for row, count in rows.items() if row[0] == part})


@pytest.mark.parametrize(
    ("seed", "panes", "counts"),
    [
        (1, (True, False, True), (False, True, False)),
        (3, (True, True, True), (True, True, True)),
    ],
)
def test_a_job_gives_what_a_batch_gives_however_rules_change_between_its_lives(
    spark: SparkSession, tmp_path: Path, seed: int, panes: tuple[bool, ...], counts: tuple[bool, ...]
) -> None:
    made = Generated.of(seed)
    life = made.life(tmp_path)
    for number in range(LIVES):
        made.write(tmp_path, number)
        with (
            setting(spark, PANES, str(panes[number]).lower()),
            setting(spark, COUNTS, str(counts[number]).lower()),
            running(spark, life) as run,
        ):
            run.wait_for(partial(_has_settled, run), "the batch behind the files")
            assert _rules(run) == (panes[number], counts[number])
            drain = number == LIVES - 1
            # A third of the input is in a savepoint, two thirds in a checkpoint.
            run.control.stop(savepoint=number == 0, location=None, drain=drain, trigger_id=TriggerId(f"stop-{number}"))
            assert run.wait() is ExitCode.OK

    expected, found = made.batch(spark, tmp_path), rows_of(output(tmp_path, "made"))
    differences = {part: difference(_of(part, expected), _of(part, found)) for part in range(5)}
    assert not any(differences.values()), (made, differences)
    assert {part for part, _ in expected} == set(differences)
