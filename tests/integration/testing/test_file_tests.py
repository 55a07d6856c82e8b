"""The tests of a job file, on a real Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.job_files import job_files

from streamjob.job.loading.job_tests import file_beside, read_tests, read_tests_file
from streamjob.job.loading.load import LoadedJob, load_job
from streamjob_runtime.testing.file_tests import Result, run_tests
from streamjob_runtime.testing.session import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FLIGHTS = Path(__file__).resolve().parents[3] / "examples" / "flights"


def run(spark: SparkSession, loaded: LoadedJob, tests: object, directory: Path, *, kills: bool = False) -> list[Result]:
    read = read_tests(tests)
    assert not read.problems
    return list(run_tests(loaded, read.tests, Session(spark, job_files(spark)), directory, kills=kills))


def test_the_tests_of_the_flights_example_pass(spark: SparkSession, tmp_path: Path) -> None:
    loaded = load_job(FLIGHTS / "job.sql")
    tests = read_tests_file(file_beside(FLIGHTS / "job.sql"), loaded.spec)
    results = list(run_tests(loaded, tests, Session(spark, job_files(spark)), tmp_path))

    assert [(each.name, each.failures) for each in results] == [(each.name, ()) for each in tests]


def test_steps_show_what_each_of_them_publishes_with_and_without_kills(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(
        """
name: latest
sources:
- name: rows
  format: json
  schema: k STRING, at TIMESTAMP
  options: {path: rows}
  watermark: {column: at, delay: 0s}
operators:
- name: windows
  inputs: [rows]
  sql: SELECT k, count(*) AS n FROM rows GROUP BY k, window(at, '1 hour')
sinks:
- {name: out, input: windows, format: json, options: {path: out}}
- {name: copy, input: rows, format: json, options: {path: copy}}
"""
    )
    test = {
        "name": "steps",
        "finish": False,
        "steps": [
            {"given": {"rows": [{"k": "a", "at": "2026-01-01T12:30:00Z"}]}, "expect": {"copy": [{"k": "a"}]}},
            {"advance": {"rows": "2026-01-01T13:00:00Z"}, "expect": {"out": [{"k": "a", "n": 1}], "copy": []}},
            {"given": {"rows": [{"k": "late", "at": "2026-01-01T12:59:00Z"}]}, "expect": {"out": []}},
        ],
        "expect": {"out": [{"k": "a", "n": 1}], "copy": [{"k": "a"}, {"k": "late"}]},
    }
    loaded = load_job(tmp_path / "job.yaml")
    wrong = {
        "name": "wrong",
        "given": {"rows": [{"k": "a", "at": "2026-01-01T12:30:00Z"}]},
        "expect": {"copy": [], "out": [{"m": 1}]},
    }
    (passed,) = run(spark, loaded, [test], tmp_path)
    killed, failed = run(spark, loaded, [test, wrong], tmp_path, kills=True)

    assert (passed.failures, killed.failures) == ((), ())
    (told,) = failed.failures
    assert told.startswith("sink 'out': 1 of 1 rows do not fit its columns\n  - row 1: there is no column 'm'\n")
