"""The state in a savepoint, read without its job, is what the job's input makes of it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.runtime.embedded import Life, life_in, running
from tests.integration.runtime.graphs import Row, add_rows, job, source
from tests.integration.runtime.processes import PROGRAM
from tests.jobs import sql
from tests.unit.runtime.rows_in_flight import InFlight

from streamjob.client.models import JobState
from streamjob.errors import ExitCode
from streamjob.ids import OperatorUid, TriggerId
from streamjob.stored.locations import find_jobs, find_snapshot
from streamjob.stored.reading import StoredSnapshot, read_job, read_snapshot
from streamjob.stored.state_stores import read_state_operators
from streamjob.stored.state_tables import StateTable, TablesRequest, choose_operators
from streamjob_runtime.inspection import read_tables
from streamjob_runtime.inspection.tables import UnusableQuery

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

FILES = 3
ROWS = [Row(f"k{number % 3}", number, number) for number in range(FILES * 9)]
HOURS = "SELECT k, window.start AS start, count(*) AS n, sum(n) AS total FROM uniq GROUP BY k, window(at, '1 hour')"
PAIRS = """
SELECT a.k, a.n FROM a JOIN b
  ON a.k = b.k AND a.n = b.n AND b.at BETWEEN a.at - INTERVAL 1 MINUTE AND a.at + INTERVAL 1 MINUTE
"""


def uniq(a: DataFrame) -> DataFrame:
    return a.dropDuplicates(["k", "at"])


def counted(b: DataFrame) -> DataFrame:
    from pyspark.sql import Row as SparkRow
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Count(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.count = handle.getValueState("count", "n long")
            self.numbers = handle.getMapState("numbers", "n long", "times long")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
            number = self.count.get()[0] if self.count.exists() else 0
            for row in rows:
                number += 1
                self.numbers.updateValue((row.n,), (1,))
            self.count.update((number,))
            yield SparkRow(k=key[0], n=number)

        def close(self) -> None:
            pass

    return b.groupBy("k").transformWithState(Count(), "k string, n long", "append", "none")


@dataclass(frozen=True)
class Inspected:
    """A savepoint, and Spark to read it with."""

    snapshot: StoredSnapshot
    directory: Path
    spark: SparkSession

    def tables(self, uid: str, **asked: Any) -> list[StateTable]:
        assert self.snapshot.manifest is not None
        operators = choose_operators(self.snapshot.manifest, read_state_operators(self.snapshot), OperatorUid(uid))
        return list(read_tables(TablesRequest(snapshot=self.snapshot, operators=operators, **asked), self.spark))

    def rows(self, uid: str, query: str) -> Counter[tuple[Any, ...]]:
        (table,) = self.tables(uid, sql=query, limit=1000)
        return Counter(tuple(row.values()) for row in table.rows)


@pytest.fixture(scope="module")
def inspected(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Inspected:
    """A savepoint of a job with deduplication, windows and a join."""
    operators = [
        {"name": "uniq", "inputs": ["a"], "python": f"{__name__}:uniq"},
        sql("hours", ["uniq"], HOURS),
        sql("pairs", ["a", "b"], PAIRS),
    ]
    return savepoint_of(spark, tmp_path_factory.mktemp("inspected"), ["a", "b"], operators, ["hours", "pairs"])


@pytest.fixture(scope="module")
def processed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Inspected:
    """A savepoint of a job with a stateful processor."""
    operators = [{"name": "counted", "inputs": ["b"], "python": f"{__name__}:counted"}]
    return savepoint_of(spark, tmp_path_factory.mktemp("processed"), ["b"], operators, ["counted"])


def savepoint_of(
    spark: SparkSession, directory: Path, sources: list[str], operators: list[dict[str, Any]], outputs: list[str]
) -> Inspected:
    """Run a job until it has read all of its input, in which every row comes twice; return its savepoint, moved."""
    for name in sources:
        for number in range(FILES):
            add_rows(directory / name, number, [*ROWS[number * 9 : (number + 1) * 9]] * 2)
    spec = job(
        directory,
        [source(name, directory / name, delay="1h") for name in sources],
        operators,
        outputs,
        checkpointing={"interval": "1h", "numRetained": 100},
    )
    life = life_in(directory, spec)
    with running(spark, life) as running_job:
        running_job.wait_for(lambda: running_job.state is JobState.RUNNING, "the job to run")
        running_job.wait_for(lambda: _checkpoint_has_all(running_job, life), "all input to be in a checkpoint")
        target = str(directory / "savepoints")
        running_job.control.stop(savepoint=True, location=target, drain=False, trigger_id=TriggerId("stop"))
        assert running_job.wait() is ExitCode.OK
    shutil.rmtree(life.location)
    (savepoint,) = (directory / "savepoints").iterdir()
    moved = shutil.move(savepoint, directory / "moved")
    place = find_snapshot(str(moved))
    assert place is not None
    return Inspected(read_snapshot(place), Path(moved), spark)


def _checkpoint_has_all(running_job: Any, life: Life) -> bool:
    running_job.checkpoint()
    (place,) = find_jobs(life.location)
    newest = read_job(place).named(None).manifest
    place.store.close()
    assert newest is not None
    return [each.position for each in newest.sources] == [{"files": FILES - 1}] * len(newest.sources)


def test_the_state_of_fused_operators_is_told_apart(inspected: Inspected) -> None:
    found = {(each.name, each.uids) for each in read_state_operators(inspected.snapshot)}

    assert found == {
        ("stateStoreSave", ("hours",)),
        ("dedupe", ("uniq",)),
        ("symmetricHashJoin", ("pairs",)),
    }


def test_the_state_of_windows_and_of_deduplication_is_a_table(inspected: Inspected) -> None:
    (hours,) = inspected.tables("hours")
    assert hours.view == "state"
    assert ("key", "window", "start") in hours.columns
    assert sorted((row["key"]["k"], row["value"]["count"], row["value"]["sum"]) for row in hours.rows) == [
        (k, FILES * 3, sum(row.n for row in ROWS if row.k == k)) for k in ("k0", "k1", "k2")
    ]
    (uniq_rows,) = inspected.tables("uniq", limit=5)
    assert uniq_rows.columns == (("key", "k"), ("key", "at"), ("partition_id",))
    assert (len(uniq_rows.rows), uniq_rows.more) == (5, True)
    assert inspected.rows("uniq", "SELECT key.k, count(*) FROM state GROUP BY key.k") == Counter(
        {(k, FILES * 3): 1 for k in ("k0", "k1", "k2")}
    )


def test_both_sides_of_a_join_are_tables_and_its_stores_can_be_asked(inspected: Inspected) -> None:
    assert [table.view for table in inspected.tables("pairs")] == ["state_left", "state_right"]
    for side in ("left", "right"):
        rows = inspected.rows("pairs", f"SELECT value.k, value.n FROM state_{side}")
        assert rows == Counter({(row.k, row.n): 2 for row in ROWS}), side
        assert inspected.rows("pairs", f"SELECT count(DISTINCT to_json(value)) FROM state_{side}") == Counter(
            {(27,): 1}
        )
    stored = inspected.rows("pairs", "SELECT sum(value.value) FROM state_left_keyToNumValues")
    assert stored == Counter({(2 * len(ROWS),): 1})


def test_state_variables_are_tables(processed: Inspected) -> None:
    assert [table.view for table in processed.tables("counted")] == ["state_count", "state_numbers"]
    assert processed.rows("counted", "SELECT key.k, value.n FROM state_count") == Counter(
        {(k, 2 * FILES * 3): 1 for k in ("k0", "k1", "k2")}
    )
    assert processed.rows("counted", "SELECT count(*) AS n, count(*) AS n2 FROM state_numbers") == Counter(
        {(len(ROWS), len(ROWS)): 1}
    )


def test_a_query_that_cannot_be_run_is_refused_with_the_views_that_there_are(inspected: Inspected) -> None:
    with pytest.raises(UnusableQuery, match="nowhere") as error:
        inspected.tables("pairs", sql="SELECT * FROM nowhere")
    assert "state_left, state_right" in error.value.fix


def test_rows_in_flight_can_be_queried(spark: SparkSession, tmp_path: Path) -> None:
    in_flight = InFlight(tmp_path)
    in_flight.add({"k": "a", "n": 1}, {"k": "b", "n": 2})
    in_flight.add({"k": "a", "n": 3})

    (table,) = in_flight.read(spark=spark, sql="SELECT k, sum(n) AS total FROM in_flight GROUP BY k ORDER BY k")
    assert table.rows == ({"k": "a", "total": 4}, {"k": "b", "total": 2})


def test_the_command_starts_a_spark_of_its_own_and_leaves_the_snapshot_alone(inspected: Inspected) -> None:
    before = {file: file.stat().st_mtime_ns for file in inspected.directory.rglob("*")}
    command = [str(PROGRAM), "snapshots", "inspect", str(inspected.directory), "--operator", "hours", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)

    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["view"] for each in rows] == ["state"] * 3
    assert {each["row"]["value"]["count"] for each in rows} == {FILES * 3}
    assert {file: file.stat().st_mtime_ns for file in inspected.directory.rglob("*")} == before
