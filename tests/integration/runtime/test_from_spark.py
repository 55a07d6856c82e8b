"""A plain Structured Streaming query is stopped, and a job goes on from its checkpoint: together they are the batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.architecture.documents import ROOT
from tests.integration.core import core
from tests.integration.runtime.embedded import Life, finish, life_in, running
from tests.integration.runtime.forks import first_completion
from tests.integration.runtime.graphs import SCHEMA, Row, add_rows, job, output, rows_of, source
from tests.integration.runtime.purchases import write_job
from tests.integration.runtime.shapes import GAP, timeouts, timers
from tests.jobs import sql
from tests.servers.s3 import S3Server

from streamjob.clock import steady_clock
from streamjob.comparison.refusals import StateChanged
from streamjob.comparison.verdicts import Comparison
from streamjob.errors import CannotRestore
from streamjob.job.loading.load import LoadedJob, load_job
from streamjob.job.planning.plan import plan
from streamjob.protocol.log.records import JobId
from streamjob.store.local import LocalStore
from streamjob.store.opening import open_location
from streamjob.stored.locations import find_snapshot
from streamjob.stored.reading import read_snapshot
from streamjob.stored.start_snapshot import Found
from streamjob.stored.verify import verify
from streamjob_runtime.checkpointing.ledger import RestoreFrom
from streamjob_runtime.process.checking.start_check import judged
from streamjob_runtime.restoring.from_spark import check_query, take_over
from streamjob_runtime.restoring.from_spark.errors import OtherState
from streamjob_runtime.spark.checkpoint_dir.forced_batch import force_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(600)]

STATE = "spark.sql.streaming.stateStore."
DEFAULTS = {
    f"{STATE}checkpointFormatVersion": "1",
    f"{STATE}rocksdb.changelogCheckpointing.enabled": "false",
}
"""Default settings of a plain query with the RocksDB provider."""
WITH_IDS = {
    f"{STATE}checkpointFormatVersion": "2",
    f"{STATE}rocksdb.changelogCheckpointing.enabled": "true",
}

DEFAULT_STORE = {
    f"{STATE}providerClass": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    f"{STATE}checkpointFormatVersion": "1",
}
"""Default settings of a plain query, of which most programs set none."""
CHANGELOGS = {**DEFAULTS, f"{STATE}rocksdb.changelogCheckpointing.enabled": "true"}

ROWS = [Row(f"k{number % 3}", number, number * 2) for number in range(72)]
WINDOWS = "SELECT k, window.start AS start, count(*) AS n, sum(n) AS total FROM a GROUP BY k, window(at, '20 seconds')"
JOIN = "SELECT a.k, a.n, b.n AS m FROM a JOIN b ON a.k = b.k AND b.at BETWEEN a.at AND a.at + INTERVAL 20 SECONDS"
OUTER = (
    "SELECT a.k, a.n, b.n AS m FROM a LEFT JOIN b ON a.k = b.k AND b.n = a.n + 3 "
    "AND b.at BETWEEN a.at AND a.at + INTERVAL 20 SECONDS"
)
SESSIONS = (
    "SELECT k, session_window.start AS start, count(*) AS n, sum(n) AS total FROM a "
    "GROUP BY k, session_window(at, CASE WHEN n % 4 = 3 THEN '2 seconds' ELSE '8 seconds' END)"
)
DISTINCT = "SELECT DISTINCT k, n div 12 AS n FROM a"
TIMEOUTS = (
    f"SELECT k, unix_seconds(session_window.start) AS begin, count(*) AS n FROM a "
    f"GROUP BY k, session_window(at, '{GAP} seconds')"
)
TOTAL = "SELECT count(*) AS n, sum(n) AS total FROM a"


def distinct(rows: DataFrame) -> DataFrame:
    """Return each key and dozen once; its rows are of several files."""
    frame = rows.selectExpr("k", "n div 12 AS n", "at").dropDuplicates(["k", "n"]).select("k", "n")
    return frame.selectExpr(*_printed(frame))


def distinct_for_a_while(rows: DataFrame) -> DataFrame:
    """Return the same, from state that is given up in time."""
    frame = rows.selectExpr("k", "n div 12 AS n", "at").dropDuplicatesWithinWatermark(["k", "n"]).select("k", "n")
    return frame.selectExpr(*_printed(frame))


def timeouts_of(rows: DataFrame) -> DataFrame:
    """Return the sessions of a function with state."""
    frame = timeouts(rows)
    return frame.selectExpr(*_printed(frame))


def timers_of(rows: DataFrame) -> DataFrame:
    """Return the same, of a processor with state and timers."""
    frame = timers(rows)
    return frame.selectExpr(*_printed(frame))


def write(directory: Path, inputs: tuple[str, ...], first: int, last: int) -> None:
    """Add input files, nine rows each."""
    for name in inputs:
        for number in range(first, last):
            add_rows(directory / name, number, ROWS[number * 9 : (number + 1) * 9])


def plain(spark: SparkSession, directory: Path, taken: Taken) -> Counter[Any]:
    """Run the plain query until it has read all available rows; return its output."""
    session, rows = spark.newSession(), Counter[Any]()
    for key, value in taken.settings.items():
        session.conf.set(key, value)
    session.conf.set("spark.sql.shuffle.partitions", taken.partitions)
    for name in taken.inputs:
        reader = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        reader.json(str(directory / name)).withWatermark("at", f"{taken.delay} seconds").createOrReplaceTempView(name)

    def keep(batch: DataFrame, number: int) -> None:
        rows.update(tuple(row) for row in batch.selectExpr(*_printed(batch)).collect())

    frame = session.sql(taken.query) if taken.function is None else taken.function(session.table("a"))
    writer = frame.writeStream.outputMode(taken.mode).option("checkpointLocation", str(directory / "checkpoint"))
    running_query = writer.foreachBatch(keep).trigger(availableNow=True).start()
    running_query.awaitTermination()
    return rows


def _printed(frame: DataFrame) -> list[str]:
    return [f"CAST({name} AS STRING) AS {name}" for name in frame.columns]


@dataclass(frozen=True)
class Taken:
    """A plain query that is taken over.

    Args:
        inputs: the directories that it reads, in its order.
        query: its computation.
        partitions: of its state.
        delay: of the watermark, in seconds: with a long one nothing that is read twice is late.
        settings: how it keeps its state.
        function: makes what the query makes as a batch; None for the query itself.
        mode: its output mode.
        in_s3: its checkpoint is copied to S3, and taken over from there.
    """

    inputs: tuple[str, ...]
    query: str
    partitions: str
    delay: int = 0
    settings: Mapping[str, str] = field(default_factory=lambda: DEFAULTS)
    function: Callable[[DataFrame], DataFrame] | None = None
    mode: str = "append"
    in_s3: bool = False

    @property
    def converted(self) -> bool:
        return self.settings in (DEFAULT_STORE, CHANGELOGS)


OPERATORS = {
    "a grouped aggregation": Taken(("a",), WINDOWS, partitions="3"),
    "a total over all rows": Taken(("a",), TOTAL, partitions="2", mode="update"),
    "`session_window`": Taken(("a",), SESSIONS, partitions="3"),
    "`dropDuplicates`, `DISTINCT`": Taken(("a",), DISTINCT, partitions="3", delay=3600, function=distinct),
    "`dropDuplicatesWithinWatermark`": Taken(
        ("a",), DISTINCT, partitions="2", delay=3600, function=distinct_for_a_while
    ),
    "an inner join of streams": Taken(("a", "b"), JOIN, partitions="2", delay=3600, in_s3=True),
    "an outer join of streams": Taken(("a", "b"), OUTER, partitions="3", delay=3600),
    "`applyInPandasWithState`": Taken(("a",), TIMEOUTS, partitions="3", function=timeouts_of),
    "`transformWithState`": Taken(("a",), TIMEOUTS, partitions="2", function=timers_of),
}
"""A query with each kind of state, by the name that the documentation has for it."""
STORES = {"RocksDB": DEFAULTS, "the default store": DEFAULT_STORE}
TAKEN = {
    f"{operator}, in {store}": replace(taken, settings=settings)
    for operator, taken in OPERATORS.items()
    for store, settings in STORES.items()
    if taken.function is not timers_of or store == "RocksDB"
}
CASES = {
    **TAKEN,
    "state with ids and changelogs": Taken(("a",), WINDOWS, partitions="2", settings=WITH_IDS),
    "state that ends with a changelog": Taken(("a",), WINDOWS, partitions="2", settings=CHANGELOGS),
}
CHOSEN = "a grouped aggregation, in the default store"
KEPT = [name for name, taken in CASES.items() if taken.settings is not DEFAULTS or taken.query == JOIN]
"""The others differ from these in what Spark does."""


def test_the_documentation_tells_what_can_be_taken_over() -> None:
    text = (ROOT / "docs" / "how-to" / "come-from-plain-spark.md").read_text()
    _, _, table = text.partition("| State of | RocksDB | The default store (HDFS-backed) |\n|---|---|---|\n")
    rows = [line.strip("| ").split(" | ") for line in table.partition("\n\n")[0].splitlines()]

    told = {operator: (rocksdb, default) for operator, rocksdb, default in rows}

    assert told == {
        operator: ("as it is", "converted" if f"{operator}, in the default store" in TAKEN else "keeps none")
        for operator in OPERATORS
    }


@pytest.fixture
def bucket(s3: S3Server) -> str:
    return f"s3://{s3.bucket}"


def copied(directory: Path, place: str) -> str:
    """Copy a checkpoint; return where it is."""
    source, target = LocalStore(directory), open_location(place).store()
    for entry in source.list(""):
        target.put(entry.key, source.get(entry.key))
    target.close()
    return place


def checked(spark: SparkSession, named: str, loaded: LoadedJob, scratch: Path) -> Comparison:
    """Return what `streamjob check` says."""

    def examine(of: LoadedJob, found: Found, compared: Comparison, allow: bool, job: JobId) -> Comparison:
        if compared.refusals:
            return compared
        spark.conf.set("spark.sql.shuffle.partitions", compared.max_parallelism)
        return judged(spark, scratch, of, found, compared, allow, job).compared

    job = JobId("default", "graph")
    return check_query(named, loaded, plan(loaded.spec), job, False, examine, steady_clock())[1]


def changing(directory: Path, taken: Taken, query: str, place: Path) -> dict[str, Any]:
    # The job names its sources in another order than the query reads them.
    sources = [source(name, directory / name, bounded=True, delay=f"{taken.delay}s") for name in reversed(taken.inputs)]
    made = sql("made", taken.inputs, query, outputMode=taken.mode)
    if taken.function is not None:
        made = {"name": "made", "inputs": list(taken.inputs), "python": f"{__name__}:{taken.function.__name__}"}
    changed = job(place, sources, [made], ["made"])
    if taken.mode == "update":
        changed["sinks"][0]["delivery"] = "at-least-once"
    return changed


@pytest.mark.parametrize("name", core(CASES, CHOSEN, kept=KEPT))
def test_a_job_goes_on_where_a_plain_query_stopped(name: str, spark: SparkSession, tmp_path: Path, bucket: str) -> None:
    taken = CASES[name]
    write(tmp_path, taken.inputs, 0, 4)
    before = plain(spark, tmp_path, taken)
    assert before
    # A batch that was planned when the query was stopped.
    checkpoint = tmp_path / "checkpoint"
    force_batch(checkpoint, 0)
    files = {file: file.stat().st_mtime_ns for file in checkpoint.rglob("*")}
    write(tmp_path, taken.inputs, 4, 8)
    named = f"spark:{copied(checkpoint, f'{bucket}/queries/made') if taken.in_s3 else checkpoint}"

    spec = changing(tmp_path, taken, f"SELECT {_casts(taken.query)} FROM ({taken.query})", tmp_path)
    life = life_in(tmp_path, spec)
    loaded = load_job(life.file, ())
    said = checked(spark, named, loaded, tmp_path / "check")
    store = open_location(life.location).job("default", life.name).store()
    taking = plan(loaded.spec), JobId("default", life.name), store, steady_clock(), lambda: spark
    uri = take_over(named, loaded, *taking)
    place = find_snapshot(uri)
    assert place is not None
    assert verify([read_snapshot(place)]).whole

    finish(spark, replace(life, restore_from=RestoreFrom(uri)))
    batch = spark.newSession()
    for input_ in taken.inputs:
        batch.read.schema(SCHEMA).json(str(tmp_path / input_)).createOrReplaceTempView(input_)
    made = batch.sql(taken.query)
    expected = Counter(tuple(row) for row in made.selectExpr(*_printed(made)).collect())
    found = before + rows_of(output(tmp_path, "made"))
    if taken.mode == "update":
        assert max(found, key=lambda row: int(row[0])) in expected
    else:
        assert found == expected
    rewritten = taken.partitions != "2" or taken.converted
    assert {each.uid: each.verdict.value for each in said.findings} == {
        "graph": "rewritten" if rewritten else "restored",
        **dict.fromkeys(taken.inputs, "restored"),
        "made": "restored",
        "to-made": "new",
    }
    first: Any = first_completion(tmp_path / "snapshots" / "default" / life.name)
    assert all(file["object"].startswith("shared/") for chain in first["chains"] for file in chain["files"])
    assert {file: file.stat().st_mtime_ns for file in checkpoint.rglob("*")} == files


@pytest.mark.parametrize(
    ("query", "cause"),
    [
        (WINDOWS.replace("k,", "string(n) AS k,", 1).replace("BY k,", "BY string(n),"), StateChanged),
        (WINDOWS.replace("count(*)", "max(n)"), StateChanged),
        ("SELECT k, n FROM a", OtherState),
    ],
    ids=["another key", "another aggregate", "no state"],
)
def test_what_check_refuses_of_a_plain_query_does_not_start(
    query: str, cause: type[CannotRestore], spark: SparkSession, stopped: Path, tmp_path: Path
) -> None:
    taken = Taken(("a",), WINDOWS, partitions="2")
    life = Life(file=write_job(tmp_path, changing(stopped, taken, query, tmp_path)), location=str(tmp_path / "s"))
    loaded = load_job(life.file, ())
    named = f"spark:{stopped / 'checkpoint'}"

    said = checked(spark, named, loaded, tmp_path / "check")

    assert [type(each) for each in said.refusals] == [cause]
    store = open_location(life.location).job("default", life.name).store()
    with pytest.raises(cause):  # noqa: PT012
        taking = plan(loaded.spec), JobId("default", life.name), store, steady_clock(), lambda: spark
        uri = take_over(named, loaded, *taking)
        with running(spark, replace(life, restore_from=RestoreFrom(uri))) as job_:
            job_.wait()


@pytest.fixture(scope="module")
def stopped(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a plain query that counts by windows, and has been stopped."""
    directory = tmp_path_factory.mktemp("stopped")
    write(directory, ("a",), 0, 4)
    plain(spark, directory, Taken(("a",), WINDOWS, partitions="2"))
    return directory


def _casts(query: str) -> str:
    joins, total = ("k", "n", "m"), ("n", "total")
    names = {JOIN: joins, OUTER: joins, TOTAL: total}.get(query, ("k", "start", "n", "total"))
    return ", ".join(f"CAST({name} AS STRING) AS {name}" for name in names)
