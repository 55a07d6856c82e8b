"""Whatever is changed of a job, `check` and a start from the snapshot say the same, with the same cause."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests import jobs
from tests.integration.core import core
from tests.integration.runtime.embedded import EmbeddedJob, Life, running
from tests.integration.runtime.graphs import Row, add_rows, manifests, numbered, source
from tests.integration.runtime.purchases import write_job

from streamjob.comparison.graphs import compare
from streamjob.errors import ExitCode, StreamJobError
from streamjob.job.loading.load import load_job
from streamjob.job.planning.plan import plan
from streamjob.protocol.log.records import JobId
from streamjob.protocol.log.restore import ClaimMode
from streamjob.stored.start_snapshot import opened
from streamjob_runtime.checkpointing.ledger import RestoreFrom
from streamjob_runtime.process.checking.start_check import judged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.thorough]

Job = dict[str, Any]
STARTS = "starts"
COUNTS = (
    "SELECT k, window(at, '1 minute', '30 seconds') AS w, count(*) AS rows, sum(n) AS s, sum(m) AS t, "
    "collect_list(struct(n)) AS list, percentile(n, 0.5) AS middle FROM clean "
    "GROUP BY k, window(at, '1 minute', '30 seconds')"
)
FUNCTIONS = """
from pyspark.sql import functions as f

def same(rows):
    return rows

def still(rows):
    return rows.sparkSession.range(3)
"""


def base(place: Path) -> Job:
    """Return the job that every change is of."""
    return jobs.job_file(
        jobs.sql("clean", "events", "SELECT k, n, n + 1 AS m, at FROM events"),
        jobs.sql("counts", "clean", COUNTS),
        jobs.python("last", "counts", "steps:same"),
        sources=[source("events", place / "events")],
        sinks=[jobs.sink("last", "parquet", place / "out", name="out")],
        name="graph",
        parallelism=2,
        maxParallelism=2,
        checkpointing={"interval": "300ms"},
    )


@dataclass(frozen=True)
class Change:
    """A change of the job.

    Args:
        name: what is changed.
        cause: the class of what refuses it; STARTS if nothing does.
        of: changes the job.
        allow: state may be given up.
    """

    name: str
    cause: str
    of: Callable[[Job], object]
    allow: bool = False


def counts(old: str, new: str) -> Callable[[Job], object]:
    return lambda job: job["operators"][1].update(sql=_replaced(job["operators"][1]["sql"], old, new))


def clean(sql: str) -> Callable[[Job], object]:
    return lambda job: job["operators"][0].update(sql=sql)


def operator(index: int, **fields: Any) -> Callable[[Job], object]:
    return lambda job: job["operators"][index].update(fields)


def events(**fields: Any) -> Callable[[Job], object]:
    return lambda job: job["sources"][0].update(fields)


def sink(**fields: Any) -> Callable[[Job], object]:
    return lambda job: job["sinks"][0].update(fields)


def added(name: str, reads: str, sql: str, **fields: Any) -> Callable[[Job], object]:
    """Add an operator before the last one, which reads it."""

    def change(job: Job) -> None:
        job["operators"].insert(2, {"name": name, "inputs": [reads], "sql": sql, **fields})
        job["operators"][3]["inputs"] = [name]

    return change


def second_source(job: Job) -> None:
    place = Path(job["sources"][0]["options"]["path"]).parent / "others"
    job["sources"].append(source("others", place))
    job["operators"][0] |= {
        "inputs": ["events", "others"],
        "sql": "SELECT k, n, n + 1 AS m, at FROM events UNION ALL SELECT k, n, n AS m, at FROM others",
    }


def without_last(job: Job) -> None:
    del job["operators"][2]
    job["sinks"][0]["input"] = "counts"


def renamed_last(job: Job) -> None:
    job["operators"][2] |= {"name": "end", "uid": "last"}
    job["sinks"][0]["input"] = "end"


def without_counts(job: Job) -> None:
    del job["operators"][1]
    job["operators"][1]["inputs"] = ["clean"]


def source_renamed(job: Job) -> None:
    job["sources"][0] |= {"name": "inputs", "uid": "events"}
    job["operators"][0] |= {"inputs": ["inputs"], "sql": "SELECT k, n, n + 1 AS m, at FROM inputs"}


def file_in_the_way(job: Job) -> None:
    path = Path(job["sinks"][0]["options"]["path"]).parent / "file"
    path.write_text("")
    job["sinks"][0]["options"]["path"] = str(path)


def second_sink(job: Job) -> None:
    path = str(Path(job["sinks"][0]["options"]["path"]).parent / "second")
    job["sinks"].append({"name": "second", "input": "counts", "format": "parquet", "options": {"path": path}})


def two_sinks_of_a_path(job: Job) -> None:
    job["sinks"].append({**job["sinks"][0], "name": "second"})


def elsewhere(job: Job) -> None:
    job["sinks"][0]["options"]["path"] += "-elsewhere"


SCHEMA = "k STRING, n BIGINT, at TIMESTAMP, gate STRING"
CHANGES = [
    Change("nothing", STARTS, lambda job: None),
    # The graph
    Change("an operator is added behind the state", STARTS, added("few", "counts", "SELECT * FROM counts")),
    Change("an operator without state is removed", STARTS, without_last),
    Change("an operator gets another name", STARTS, renamed_last),
    Change("an operator with state gets another uid", "NonRestoredState", operator(1, uid="other")),
    Change("state is given up for a new chain", STARTS, operator(1, uid="other", chain=False), allow=True),
    Change("state is given up within a chain", STARTS, operator(1, uid="other"), allow=True),
    Change("an operator with state is removed", "NonRestoredState", without_counts),
    Change("a chain is split", STARTS, operator(1, chain=False)),
    Change(
        "state is added to a chain", "NewStateInOldChain", clean("SELECT DISTINCT k, n, n + 1 AS m, at FROM events")
    ),
    Change("a function is not there", "InvalidJob", operator(2, python="steps:gone")),
    Change("a function returns no stream", "InvalidOperator", operator(2, python="steps:still")),
    Change("a source is added", STARTS, second_source),
    Change("a source gets another uid", "NonRestoredState", events(uid="others")),
    Change("a source gets another name", STARTS, source_renamed),
    Change(
        "a source becomes an operator",
        "PartChanged",
        lambda job: (events(uid="a")(job), operator(0, uid="events")(job)),
    ),
    Change("an operator reads what is not there", "InvalidJob", operator(1, inputs=["nobody"])),
    # The schema
    Change("a column is added", STARTS, events(schema=f"{SCHEMA}, more INT")),
    Change("a column that is read is gone", "InvalidOperator", events(schema="k STRING, at TIMESTAMP")),
    Change("a column of a list gets another type", "StateChanged", events(schema=SCHEMA.replace("BIGINT", "INT"))),
    Change("a key gets another type", "StateChanged", events(schema=SCHEMA.replace("k STRING", "k INT"))),
    Change("the event time is not a time", "InvalidJob", events(schema=SCHEMA.replace("TIMESTAMP", "STRING"))),
    Change("the delay is longer", STARTS, events(watermark={"column": "at", "delay": "5s"})),
    Change("the watermark is gone", "InvalidJob", lambda job: job["sources"][0].pop("watermark")),
    Change("a source gets another format", "SourceFormatChanged", events(format="csv")),
    Change(
        "a source reads less at once", STARTS, lambda job: job["sources"][0]["options"].update(maxFilesPerTrigger=2)
    ),
    # SQL
    Change("a longer window", "StateChanged", counts("1 minute", "2 minutes")),
    Change("another slide", "StateChanged", counts("30 seconds", "20 seconds")),
    Change("another start", "StateChanged", counts("'30 seconds'", "'30 seconds', '5 seconds'")),
    Change("a list collects more", "StateChanged", counts("struct(n)", "struct(at, n)")),
    Change("a list collects texts", "StateChanged", counts("struct(n)", "struct(string(n) AS n)")),
    Change("a percentile of another type", "StateChanged", counts("percentile(n,", "percentile(double(n),")),
    Change("another percentile", STARTS, counts("0.5)", "0.9)")),
    Change("aggregates change places", "StateChanged", counts("sum(n) AS s, sum(m) AS t", "sum(m) AS s, sum(n) AS t")),
    Change("an aggregate is added", "StateChanged", counts("count(*) AS rows", "count(*) AS rows, max(n) AS most")),
    Change("an aggregate is removed", "StateChanged", counts(" sum(m) AS t,", "")),
    Change("a longer window starts empty", STARTS, counts("1 minute", "2 minutes"), allow=True),
    Change("other aggregates start empty", STARTS, counts(" sum(m) AS t,", ""), allow=True),
    Change("a list of other things starts empty", STARTS, counts("struct(n)", "struct(at, n)"), allow=True),
    Change(
        "state is added to a chain and starts empty",
        STARTS,
        clean("SELECT DISTINCT k, n, n + 1 AS m, at FROM events"),
        allow=True,
    ),
    Change("another column is the key", "StateChanged", clean("SELECT string(n) AS k, n, n + 1 AS m, at FROM events")),
    Change("a key is computed", "StateChanged", clean("SELECT upper(k) AS k, n, n + 1 AS m, at FROM events")),
    Change("rows are filtered before", STARTS, clean("SELECT k, n, n + 1 AS m, at FROM events WHERE n > 1")),
    Change("a result is computed in another way", STARTS, counts("count(*) AS rows", "2 * count(*) AS rows")),
    Change("a column that is not there", "InvalidOperator", counts("k, window", "kk, window")),
    Change("a function that Spark has not", "InvalidOperator", counts("count(*)", "kount(*)")),
    Change("no SQL", "InvalidJob", operator(1, sql="SELEKT 1")),
    # Sinks
    Change("a sink gets another name", "PlaceTaken", sink(name="report")),
    Change("a sink gets another name and keeps its uid", STARTS, sink(name="report", uid="out")),
    Change("a sink gets another path", STARTS, elsewhere),
    Change("a sink is added", STARTS, second_sink),
    Change("two sinks have one path", "InvalidJob", two_sinks_of_a_path),
    Change("a file is where a sink's directory is to be", "UnusablePlace", file_in_the_way),
    Change("a sink needs a variable", "MissingVariable", sink(options={"path": "${env:NOT_SET_ANYWHERE}"})),
    Change("a sink's class is not there", "UnusableSink", sink(format="steps:Gone", options={})),
    Change("a sink writes another format", STARTS, sink(format="json")),
    Change("a sink partitions by a column that is not there", "UnusableSink", sink(partitionBy=["gone"])),
    # Settings
    Change("fewer slots", STARTS, lambda job: job.update(parallelism=1)),
    Change("more partitions", STARTS, lambda job: job.update(maxParallelism=4)),
    Change("more slots than partitions", "InvalidJob", lambda job: job.update(parallelism=8)),
    Change(
        "unaligned checkpoints", STARTS, lambda job: job.update(checkpointing={"interval": "1s", "mode": "unaligned"})
    ),
    Change("an unknown setting", "InvalidJob", lambda job: job.update(chekpointing={})),
]

NAMED = {each.name: each for each in CHANGES}


@pytest.fixture(scope="module")
def first(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a job that was stopped with a checkpoint, with state in it."""
    place = tmp_path_factory.mktemp("first")
    add_rows(place / "events", 0, numbered(0, 70))
    (place / "steps.py").write_text(FUNCTIONS)
    with running(spark, Life(file=write_job(place, base(place)), location=str(place / "snapshots"))) as job:
        job.wait_for_batches(2)
        assert job.stop() is ExitCode.OK
    # Each of the second lives needs something to read.
    add_rows(place / "events", 1, [*numbered(70, 10), Row("end", 0, 300)])
    return place


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", core(NAMED, "nothing", "a longer window", "a sink's class is not there"))
def test_check_says_what_a_start_does(spark: SparkSession, first: Path, tmp_path: Path, name: str) -> None:
    change, place = NAMED[name], tmp_path / "place"
    # The sinks' place is the first life's, by the same path: a start may take it, so each change has a copy.
    shutil.copytree(first, place)
    fields = json.loads(json.dumps(deepcopy(base(first))).replace(str(first / "out"), str(place / "out")))
    change.of(fields)
    (place / "job.yaml").write_text(json.dumps(fields))
    newest = manifests(first / "snapshots" / "default" / "job")[-1]
    uri = (first / f"snapshots/default/job/checkpoints/{newest.epoch}-{newest.id}/manifest.json").as_uri()

    said = checked(spark, place / "job.yaml", uri, change.allow, tmp_path)
    before = max(chain.batch for chain in newest.chains)
    done = started(spark, place / "job.yaml", uri, change.allow, tmp_path, before)

    assert (said, done) == (change.cause, change.cause)


def checked(spark: SparkSession, file: Path, uri: str, allow: bool, scratch: Path) -> str:
    """Return the class of what `check` refuses the job with."""
    try:
        loaded = load_job(file)
        with opened(loaded, uri, str(scratch / "none")) as found:
            assert found is not None
            compared = compare(loaded.spec, plan(loaded.spec), found.manifest, found.uri, allow)
            if not compared.refusals:
                spark.conf.set("spark.sql.shuffle.partitions", compared.max_parallelism)
                job = JobId("default", "job")
                compared = judged(spark, scratch / "check", loaded, found, compared, allow, job).compared
            compared.check()
    except StreamJobError as error:
        return type(error).__name__
    return STARTS


def started(spark: SparkSession, file: Path, uri: str, allow: bool, scratch: Path, before: int) -> str:
    """Return the class of what a start is refused with; a job that starts has run a batch."""
    restore_from = RestoreFrom(uri, ClaimMode.NO_CLAIM, allow_non_restored_state=allow)
    try:
        with running(spark, Life(file=file, location=str(scratch / "snapshots"), restore_from=restore_from)) as job:
            job.wait_for(lambda: has_run(job, before), "a batch behind the snapshot")
            job.stop()
    except StreamJobError as error:
        return type(error).__name__
    return STARTS


def has_run(job: EmbeddedJob, before: int) -> bool:
    chains = job.runner.epoch.chains if job.runner.epoch else {}
    return any(chain.last_emitted > before for chain in chains.values())


def _replaced(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)
