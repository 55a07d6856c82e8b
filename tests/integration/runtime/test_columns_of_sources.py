"""A source computes its columns from each row, and any of them may be its event time, across kills and restores."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests import jobs
from tests.integration.runtime.embedded import Life, life_in, running
from tests.integration.runtime.graphs import BEGIN, job, output, rows_of
from tests.integration.runtime.power import Power
from tests.integration.runtime.purchases import add_file, write_job
from tests.integration.runtime.stories import killed_and_finished
from tests.jobs import sql
from tests.servers.kafka import KafkaServer

from streamjob.errors import InvalidInput, InvalidJob
from streamjob.job.loading.load import load_job
from streamjob_runtime.process.checking.validation import validate_with

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FORM = "dd.MM.yyyy, HH:mm:ss"
COLUMNS = ["*", f"try_to_timestamp(written, '{FORM}') AS at", "_metadata.file_name AS file"]
COUNTS = "SELECT k, file, window.start AS minute, count(*) AS n FROM events GROUP BY k, file, window(at, '1 minute')"
FUNCTION = f"""
from pyspark.sql import functions as f


def timed(rows):
    at = f.try_to_timestamp("written", f.lit("{FORM}"))
    return rows.select("*", at.alias("at"), f.col("_metadata.file_name").alias("file"))
"""
FILES = 8


def written(second: float) -> str:
    return (BEGIN + timedelta(seconds=second)).strftime("%d.%m.%Y, %H:%M:%S")


def add_events(directory: Path) -> Counter[Any]:
    """Write files of two minutes each, out of order and with a row that has no time; return the windows of the rest."""
    windows: Counter[Any] = Counter()
    for number in range(FILES):
        seconds = [number * 120 + each for each in (100, 5, 70, 30)]
        rows = [{"k": "a", "written": written(each)} for each in seconds]
        add_file(directory, number, [*rows, {"k": "a", "written": "never"}])
        windows.update(("a", f"{number:04d}.json", minute(each)) for each in seconds)
    return Counter((*window, count) for window, count in windows.items())


def minute(second: float) -> str:
    return (BEGIN + timedelta(seconds=second // 60 * 60)).replace(tzinfo=None).isoformat()


def events(directory: Path, **fields: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {"bounded": True, "watermark": {"column": "at", "delay": "1m", "nullEventTime": "drop"}}
    return jobs.files("events", directory / "in", "k STRING, written STRING", **usual | fields)


def counting(directory: Path, source: dict[str, Any], *, split: bool = False) -> dict[str, Any]:
    counts = sql("counts", ["events"], COUNTS, chain=not split)
    return job(directory, [source], [counts], ["counts"], checkpointing={"interval": "1h"})


def timed_by_an_operator(directory: Path, *, split: bool) -> Path:
    """Write a job whose source has no event time: an operator parses the rows, and another one takes them apart."""
    source = {key: value for key, value in events(directory).items() if key != "watermark"}
    source |= {"name": "raw", "columns": ["*", "_metadata.file_name AS file"]}
    raw = f"SELECT array(k) AS ks, file, try_to_timestamp(written, '{FORM}') AS at FROM raw"
    operators = [
        {
            **sql("parsed", ["raw"], raw, chain=not split),
            "watermark": {"column": "at", "delay": "1m", "nullEventTime": "drop"},
        },
        sql("events", ["parsed"], "SELECT explode(ks) AS k, file, at FROM parsed"),
        sql("counts", ["events"], COUNTS),
    ]
    return write_job(
        directory / "job", job(directory, [source], operators, ["counts"], checkpointing={"interval": "1h"})
    )


@pytest.mark.parametrize("form", ["columns", "function", "split", "operator", "operator between channels"])
def test_windows_over_a_computed_time_are_complete_after_a_kill_and_at_the_end_of_input(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    expected = add_events(tmp_path / "in")
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "timing.py").write_text(FUNCTION)
    if form.startswith("operator"):
        life = Life(file=timed_by_an_operator(tmp_path, split="channels" in form), location=str(tmp_path / "snapshots"))
        killed_and_finished(spark, life, Power(monkeypatch))
        assert rows_of(output(tmp_path, "counts")) == expected
        return
    how = {"python": "timing:timed"} if form == "function" else {"columns": COLUMNS}
    life = life_in(tmp_path, counting(tmp_path, events(tmp_path, **how), split=form == "split"))

    killed_and_finished(spark, life, Power(monkeypatch))

    assert rows_of(output(tmp_path, "counts")) == expected


@pytest.mark.server
def test_the_time_inside_of_a_kafka_message_is_its_event_time(
    spark: SparkSession, kafka_server: KafkaServer, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for second in range(0, 600, 10):
        at = (BEGIN + timedelta(seconds=second)).isoformat()
        kafka_server.produce(topic, [("a", json.dumps({"at": at}))], headers={"from": b"here"}, partition=0)
    source = jobs.topic(
        "events",
        kafka_server.bootstrap,
        topic,
        {"includeHeaders": True, "maxOffsetsPerTrigger": 10},
        bounded=True,
        columns=[
            "CAST(key AS STRING) AS k",
            "from_json(CAST(value AS STRING), 'at TIMESTAMP') AS row",
            "row.at AS at",
            "CAST(headers[0].value AS STRING) AS file",
            "timestamp AS written",
        ],
        watermark={"column": "at", "delay": "20s"},
    )

    killed_and_finished(spark, life_in(tmp_path, counting(tmp_path, source)), Power(monkeypatch))

    rows = rows_of(output(tmp_path, "counts"))
    assert rows == Counter(("a", "here", minute(each), 6) for each in range(0, 600, 60))


@pytest.mark.core
def test_a_job_goes_on_with_its_state_when_its_columns_change_their_words_only(
    spark: SparkSession, tmp_path: Path
) -> None:
    add_file(tmp_path / "in", 0, [{"k": "a", "written": written(10)}])
    source = events(tmp_path, bounded=False, columns=COLUMNS)
    life = life_in(tmp_path, counting(tmp_path, source), overrides=("checkpointing.interval=300ms",))
    with running(spark, life) as first:
        first.wait_for_batches()
        first.stop()

    add_file(tmp_path / "in", 1, [{"k": "a", "written": written(each)} for each in (20, 300)])
    columns = ["k", f"try_to_timestamp(trim(written), '{FORM}') AS at", "'0000.json' AS file"]
    write_job(tmp_path / "job", counting(tmp_path, {**source, "columns": columns}))
    with running(spark, life) as second:
        second.wait_for(lambda: bool(output(tmp_path, "counts")), "first window")
        second.stop()

    assert rows_of(output(tmp_path, "counts")) == Counter([("a", "0000.json", minute(0), 2)])


FUNCTIONS = """
def nothing(rows):
    return None

def still(rows):
    return rows.sparkSession.range(3)

def counted(rows):
    return rows.groupBy("value").count()

def twice(rows):
    return rows.union(rows)

def marked(rows):
    return getattr(rows, "with" + "Watermark")("timestamp", "1 hour")

def other(rows):
    return rows.sparkSession.readStream.format("rate").load()
"""


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"columns": ["vlaue"]}, ["vlaue", "cannot be resolved"]),
        ({"columns": ["histogram_numeric(value, 3) AS v"]}, ["keep state", "compute them in an operator"]),
        ({"python": "functions_of_sources:nothing"}, ["returned NoneType", "return the DataFrame"]),
        ({"python": "functions_of_sources:still"}, ["does not read the source's rows once"]),
        ({"python": "functions_of_sources:other"}, ["does not read the source's rows once"]),
        ({"python": "functions_of_sources:twice"}, ["does not read the source's rows once"]),
        ({"python": "functions_of_sources:counted"}, ["keep state", "compute them in an operator"]),
        ({"python": "functions_of_sources:marked"}, ["sets a watermark", "give the source `watermark"]),
        ({"python": "functions_of_sources:gone"}, ["has no function 'gone'"]),
        ({"columns": ["value", "value AS at"], "watermark": {"column": "at", "delay": "1s"}}, ["at", "BIGINT"]),
        (
            {"columns": ["window(timestamp, '1 hour') AS w"], "watermark": {"column": "w", "delay": "1s"}},
            ["its watermark is on 'w', a window", "put the watermark on a TIMESTAMP"],
        ),
    ],
)
def test_columns_that_are_not_computed_row_by_row_are_refused_before_the_start(
    spark: SparkSession, tmp_path: Path, fields: dict[str, Any], words: list[str]
) -> None:
    (tmp_path / "functions_of_sources.py").write_text(textwrap.dedent(FUNCTIONS))
    source = jobs.source("broken", **fields)
    file = write_job(tmp_path, jobs.job_file(sources=[source], sinks=[jobs.sink("broken", "json", "out")]))

    with pytest.raises(InvalidInput) as refused, running(spark, Life(file=file, location=str(tmp_path / "s"))) as begun:
        begun.wait()
    assert all(each in str(refused.value) for each in ["'broken'", *words])
    if isinstance(refused.value, InvalidJob):
        return
    with pytest.raises(InvalidJob) as problems:
        validate_with(spark, tmp_path, load_job(file))
    assert all(each in str(problems.value) for each in ["source 'broken'", *words])
