"""Checks settings of the whole job: Spark's configuration, secrets, parallelism."""

from __future__ import annotations

import re
from collections.abc import Iterator

from streamjob.job.checks.subject import Subject, where
from streamjob.job.connectors.options import all_options, is_secret
from streamjob.job.model.problem import Problem
from streamjob.job.model.spark_settings import overridden, owned_setting


def spark_conf(subject: Subject) -> Iterator[Problem]:
    """The job does not override settings of the runtime."""
    conf = subject.spec.spark_conf
    for what, fix in overridden(conf):
        yield Problem("sparkConf", what, fix)
    for key in conf:
        if not key.startswith("spark.") and owned_setting(key) is None:
            yield Problem("sparkConf", f"{key} does not begin with 'spark.', so Spark ignores it", f"write spark.{key}")


def secrets(subject: Subject) -> Iterator[Problem]:
    """The file contains no secret. The message never shows the value."""
    parts = [(where(each), *options) for each in subject.spec.connectors() for options in all_options(each)]
    parts.append(("sparkConf", "", subject.spec.spark_conf))
    for owner, before, options in parts:
        for key, value in options.items():
            if is_secret(key, value):
                variable = re.sub(r"[^A-Za-z0-9]+", "_", key.removeprefix("spark.hadoop.")).upper()
                what = f"the option {before + key!r} holds a secret, and secrets do not belong in the job file"
                yield Problem(owner, what, f"take it from the environment: ${{env:{variable}}}")


def parallelism(subject: Subject) -> Iterator[Problem]:
    """There are at least as many state partitions as tasks."""
    spec = subject.spec
    if spec.max_parallelism < spec.parallelism:
        what = f"maxParallelism is {spec.max_parallelism}, but parallelism is {spec.parallelism}"
        yield Problem("job", what, f"set maxParallelism to {spec.parallelism} or more")
