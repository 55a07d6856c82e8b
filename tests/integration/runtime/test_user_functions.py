"""Functions in Python that a job's SQL calls, and functions with a type that are made before Spark runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.architecture.documents import blocks

from streamjob.errors import InvalidJob
from streamjob.job.loading.load import load_job
from streamjob.testing import JobTest
from streamjob_runtime.process.checking.validation import validate_with

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark]

PAGE = "docs/how-to/call-python-from-sql.md"
CLICKS = [{"timestamp": "2026-01-01T00:00:00Z", "value": value} for value in (57, 3)]


@pytest.fixture(autouse=True)
def _path_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", sys.path.copy())


def written(spark: SparkSession, directory: Path, name: str, text: str) -> Path:
    """Write a module that the session's Python workers can import, too."""
    file = directory / name
    file.write_text(text)
    spark.sparkContext.addPyFile(str(file))
    return file


def test_sql_calls_the_functions_of_the_page_in_each_form_of_the_job(
    spark: SparkSession, streamjob_job: Callable[..., JobTest], tmp_path: Path
) -> None:
    shops, in_python = (each.text for each in blocks() if each.document == PAGE and each.language == "python")
    (in_sql,) = (each.text for each in blocks() if each.document == PAGE and each.language == "sql")
    (in_yaml,) = (each.text for each in blocks() if each.document == PAGE and each.language == "yaml")
    written(spark, tmp_path, "shops.py", shops)
    (tmp_path / "job.sql").write_text(in_sql)
    declared = load_job(tmp_path / "job.sql").spec.functions
    (tmp_path / "in_yaml.yaml").write_text(
        f"{in_yaml}\nname: a\nsources: [{{name: s, format: rate}}]\nsinks: [{{name: k, input: s, format: console}}]"
    )
    (tmp_path / "in_python.py").write_text(
        f"{in_python}\ns = job.source('s', format='rate')\njob.sink('k', input=s, format='console')"
    )

    job = streamjob_job(tmp_path / "job.sql")
    job.feed("clicks", CLICKS)
    job.finish()

    job.expect("report", [{"shop": 7, "label": "no. 57"}, {"shop": 3, "label": "no. 3"}])
    assert declared == load_job(tmp_path / "in_yaml.yaml").spec.functions
    assert declared == load_job(tmp_path / "in_python.py").spec.functions


HINTS = """
import datetime
import decimal

def of_a(value) -> "list[int | None]": return [value]
def of_b(value) -> dict[str, float]: return {"v": value / 2}
def of_c(value) -> decimal.Decimal | None: return None
def of_d(value) -> datetime.date: return datetime.date(2026, 1, 1)
def of_e(value) -> bool: return value > 5
def untyped(value): return value
def strange(value) -> set[int]: return {value}
def shadow(value) -> int: return value
"""


def job_with(directory: Path, functions: str) -> Path:
    file = directory / "job.sql"
    file.write_text(
        f"SET 'name' = 'hints';\n{functions}\nCREATE SOURCE s WITH ('format' = 'rate');\n"
        "CREATE SINK k WITH ('format' = 'json', 'path' = 'out');\n"
        f"INSERT INTO k SELECT {', '.join(f'of_{each}(value) AS {each}' for each in 'abcde')} FROM s;\n"
    )
    return file


@pytest.mark.slow
def test_a_hint_is_the_type_of_a_function(
    spark: SparkSession, streamjob_job: Callable[..., JobTest], tmp_path: Path
) -> None:
    written(spark, tmp_path, "hints.py", HINTS)
    job = streamjob_job(
        job_with(tmp_path, " ".join(f"CREATE FUNCTION of_{each} AS 'hints.of_{each}';" for each in "abcde"))
    )
    job.feed("s", CLICKS[:1])
    job.finish()

    job.expect("k", [{"a": [57], "b": {"v": 28.5}, "c": None, "d": "2026-01-01", "e": True}])


def test_functions_that_sql_could_not_call_are_refused_before_the_start(spark: SparkSession, tmp_path: Path) -> None:
    written(spark, tmp_path, "hints.py", HINTS)
    wrong = {"Upper": "shadow", "f": "untyped", "g": "strange"}
    named = {**{f"of_{each}": f"of_{each}" for each in "abcde"}, **wrong}
    file = job_with(tmp_path, " ".join(f"CREATE FUNCTION {name} AS 'hints.{each}';" for name, each in named.items()))

    with pytest.raises(InvalidJob) as refused:
        validate_with(spark, tmp_path / "scratch", load_job(file))

    assert [str(each).partition("\n")[0] for each in refused.value.problems] == [
        "function 'Upper': is one of Spark's own",
        "function 'f': has no type of what it returns",
        "function 'g': returns set[int], which has no type in SQL",
    ]


AT_THE_TOP = """
import pandas
from pyspark.sql import functions as f
from streamjob import Job

job = Job("typed")
clicks = job.source("clicks", format="rate")

def shops():
    return 50

@f.udf("long")
def shop(value):
    return value % shops()

@f.udf("array<struct<v: int>>")
def nested(value):
    return [(value,)]

@f.pandas_udf("long")
def doubled(values: "pandas.Series") -> "pandas.Series":
    return values * 2

again = shop.asNondeterministic()

@job.operator(inputs=[clicks])
def typed(clicks):
    clicks.sparkSession.udf.register("registered", shop)
    return clicks.select(
        shop("value").alias("shop"), nested("value").alias("nested"), doubled("value").alias("doubled"),
        again("value").alias("again"), f.expr("registered(value) AS registered"),
    )

job.sink("report", input=typed, format="json", options={"path": "out"})
"""


@pytest.mark.slow
def test_functions_with_a_type_may_be_made_before_spark_runs(
    spark: SparkSession, streamjob_job: Callable[..., JobTest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark import SparkContext

    file = written(spark, tmp_path, "typed_job.py", AT_THE_TOP)
    with monkeypatch.context() as before:
        before.setattr(SparkContext, "_active_spark_context", None)
        loaded = load_job(file)

    job = streamjob_job(loaded)
    job.feed("clicks", CLICKS[:1])
    job.finish()

    row = {"shop": 7, "nested": [{"v": 57}], "doubled": 114, "again": 7, "registered": 7}
    job.expect("report", [row])


@pytest.mark.parametrize("line", ["small = f.col('value') < 5", "rows = StructType.fromDDL('a INT')"])
def test_what_asks_spark_before_it_runs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    from pyspark import SparkContext

    file = tmp_path / "early_job.py"
    file.write_text(f"from pyspark.sql import functions as f\nfrom pyspark.sql.types import StructType\n{line}\n")
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)

    with pytest.raises(InvalidJob, match=r"file: line 3: asks Spark, .*\n.*move this into the function that uses it"):
        load_job(file)
