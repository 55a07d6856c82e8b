"""A program and the job that `streamjob import` makes of it have the same rows, also when the job is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.integration.runtime.processes import PROGRAM, job_runs

from streamjob.errors import ExitCode

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PLAIN = '''
"""Counts clicks by shop and minute, and keeps the expensive ones."""
import argparse
from datetime import datetime

import pandas as pd
from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.types import IntegerType, StringType, StructField, StructType, TimestampType

SCHEMA = StructType([
    StructField("shop", IntegerType()), StructField("at", TimestampType()), StructField("price", StringType())])


def cents(price: str) -> int:
    """Prices come as text, with a comma."""
    return int(price.replace(",", ""))


to_cents = F.udf(cents, IntegerType())


@F.pandas_udf(StringType())
def loud(name: pd.Series) -> pd.Series:
    return name.str.upper()


def cleaned(rows: DataFrame, least: int) -> DataFrame:
    return rows.where(F.col("price").isNotNull()).withColumn("cents", to_cents("price")).where(F.col("cents") >= least)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", required=True)
    to = parser.parse_args().output
    spark = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", 2) \\
        .config("spark.ui.enabled", "false").getOrCreate()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    clicks = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 2).json("clicks")
    shops = spark.read.schema("id INT, name STRING").csv("shops")
    good = cleaned(clicks, 100)
    timed = good.withWatermark("at", "30 seconds")
    minutes = timed.groupBy(F.window("at", "1 minute"), "shop")
    minutes = minutes.agg(F.sum("cents").alias("cents"), F.count("*").alias("n"))
    named = minutes.join(shops, minutes.shop == shops["id"], "left")
    named = named.select(F.col("window.start").cast("string").alias("minute"), loud("name").alias("name"), "cents", "n")
    named.writeStream.format("json").option("checkpointLocation", f"{to}/ck1").trigger(availableNow=True) \\
        .start(f"{to}/minutes").awaitTermination()
    good.createOrReplaceTempView("good")
    expensive = spark.sql("SELECT shop, cents, date_format(at, 'HH:mm:ss') AS time FROM good WHERE cents > 900")
    expensive.writeStream.format("json").option("checkpointLocation", f"{to}/ck2").trigger(availableNow=True) \\
        .start(f"{to}/expensive").awaitTermination()


if __name__ == "__main__":
    main()
'''


def rows_in(directory: Path) -> list[dict[str, Any]]:
    """Return the rows of a directory of JSON, in order."""
    texts = [line for file in directory.glob("*.json") for line in file.read_text(encoding="utf-8").splitlines()]
    return [json.loads(text) for text in sorted(texts)]


@pytest.mark.timeout(300)
def test_an_imported_program_has_the_rows_that_it_had_also_when_it_is_killed(tmp_path: Path) -> None:
    (tmp_path / "clicks").mkdir()
    (tmp_path / "shops").mkdir()
    (tmp_path / "shops" / "all.csv").write_text("0,nought\n1,one\n2,two\n", encoding="utf-8")
    for file in range(10):
        clicks = [
            {"shop": each % 4, "at": f"2026-07-01T12:{file:02}:{each:02}Z", "price": f"{each % 13},{file}0"}
            for each in range(40)
        ]
        lines = [json.dumps(each if each["shop"] else {**each, "price": None}) for each in clicks]
        (tmp_path / "clicks" / f"{file}.json").write_text("\n".join(lines), encoding="utf-8")
    program = tmp_path / "clicks.py"
    program.write_text(PLAIN, encoding="utf-8")
    own = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    subprocess.run([sys.executable, program, "--output", "plain"], cwd=tmp_path, env=own, check=True)
    expected = {name: rows_in(tmp_path / "plain" / name) for name in ("minutes", "expensive")}
    assert all(expected.values())

    made = subprocess.run(
        [PROGRAM, "import", "clicks.py", "--output", "job.py", "--", "--output", "ours"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert made.returncode == ExitCode.OK, made.stderr
    assert "DECIDE" not in (tmp_path / "job.py").read_text(encoding="utf-8")

    def rows() -> dict[str, list[dict[str, Any]]]:
        return {name: rows_in(tmp_path / "ours" / name) for name in expected}

    with job_runs(tmp_path / "job.py", tmp_path / "snapshots", "clicks") as runs:
        often = ("--set", "checkpointing.interval=300ms")
        process = runs.start(*often)
        runs.wait(lambda: bool(rows()["expensive"]), "rows", process)
        process.kill()
        process = runs.start(*often)
        runs.wait(lambda: sum(map(len, rows().values())) >= sum(map(len, expected.values())), "all rows", process)
        process.kill()
    assert rows() == expected
