"""What this package uses of `streamjob_runtime`, which builds on it: each name is loaded when it is used."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from streamjob.extras import from_extra

if TYPE_CHECKING:
    from streamjob_runtime.inspection import read_tables as read_tables
    from streamjob_runtime.process.checking.commits import check_rows_file as check_rows_file
    from streamjob_runtime.process.checking.commits import opened_commits as opened_commits
    from streamjob_runtime.process.checking.migration import MigrationReport as MigrationReport
    from streamjob_runtime.process.checking.migration import Migrator as Migrator
    from streamjob_runtime.process.checking.start_check import embedded_spark as embedded_spark
    from streamjob_runtime.process.checking.start_check import examine as examine
    from streamjob_runtime.process.checking.validation import validate as validate
    from streamjob_runtime.process.executor_cli import executor as executor
    from streamjob_runtime.process.notebook import RunningJob as RunningJob
    from streamjob_runtime.process.notebook import notebook as notebook
    from streamjob_runtime.process.termination import TerminationLog as TerminationLog
    from streamjob_runtime.process.testing import preview_job as preview_job
    from streamjob_runtime.process.testing import run_job_tests as run_job_tests
    from streamjob_runtime.restoring.from_spark import check_query as check_query
    from streamjob_runtime.restoring.from_spark import was_taken_over as was_taken_over
    from streamjob_runtime.sinks.checking.verifying import problems_of_sinks as problems_of_sinks
    from streamjob_runtime.spark.gateway import types_unparsed as types_unparsed
    from streamjob_runtime.spark.job_files import JobFiles as JobFiles
    from streamjob_runtime.spark.parsing import parse_with_spark as parse_with_spark
    from streamjob_runtime.spark.session import SessionSettings as SessionSettings
    from streamjob_runtime.spark.session import start_session as start_session
    from streamjob_runtime.testing.file_tests import junit as junit
    from streamjob_runtime.testing.job_test import JobTest as JobTest
    from streamjob_runtime.testing.preview import Preview as Preview
    from streamjob_runtime.testing.session import Session as Session
    from streamjob_runtime.testing.values import json_of as json_of

_PLACES = {
    "JobFiles": "spark.job_files:JobFiles",
    "JobTest": "testing.job_test:JobTest",
    "Migrator": "process.checking.migration:Migrator",
    "Session": "testing.session:Session",
    "SessionSettings": "spark.session:SessionSettings",
    "TerminationLog": "process.termination:TerminationLog",
    "check_query": "restoring.from_spark:check_query",
    "check_rows_file": "process.checking.commits:check_rows_file",
    "embedded_spark": "process.checking.start_check:embedded_spark",
    "examine": "process.checking.start_check:examine",
    "executor": "process.executor_cli:executor",
    "json_of": "testing.values:json_of",
    "junit": "testing.file_tests:junit",
    "notebook": "process.notebook:notebook",
    "opened_commits": "process.checking.commits:opened_commits",
    "parse_with_spark": "spark.parsing:parse_with_spark",
    "preview_job": "process.testing:preview_job",
    "problems_of_sinks": "sinks.checking.verifying:problems_of_sinks",
    "read_tables": "inspection:read_tables",
    "run_job_tests": "process.testing:run_job_tests",
    "start_session": "spark.session:start_session",
    "types_unparsed": "spark.gateway:types_unparsed",
    "validate": "process.checking.validation:validate",
    "was_taken_over": "restoring.from_spark:was_taken_over",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _PLACES[name].partition(":")
    return getattr(import_module(f"streamjob_runtime.{module}"), attribute)


def has_spark() -> bool:
    """Return whether Spark is installed, as the extra `runtime` does."""
    return find_spec("pyspark") is not None


def require(whom: str, package: str = "pyspark") -> None:
    """Raise MissingExtra if a package of the extra `runtime` is missing; the message begins with who needs it."""
    with from_extra(whom, "runtime"):
        import_module(package)
