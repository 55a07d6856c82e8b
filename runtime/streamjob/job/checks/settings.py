"""Checks settings of the whole job: Spark's configuration, secrets, parallelism."""

from __future__ import annotations

import re
from collections.abc import Iterator

from streamjob.job.checks.subject import Subject, where
from streamjob.job.options import all_options, is_secret
from streamjob.job.problem import Problem

_STATE_FORMAT = "leave it out: snapshots rely on one format of state"
_OWNED: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), fix)
    for pattern, fix in (
        (r"spark\.sql\.shuffle\.partitions", "set maxParallelism: it is the number of state partitions"),
        (r"spark\.(sql\.)?default\.parallelism", "set parallelism"),
        (r"(spark\.sql\.streaming\.)?checkpointLocation", "set checkpointing.location"),
        (r"spark\.sql\.streaming\.checkpoint.*", "leave it out: checkpoints are set up under checkpointing"),
        (r"spark\.sql\.streaming\.stateStore\.providerClass", _STATE_FORMAT),
        (r"spark\.sql\.streaming\.stateStore\.(checkpointFormatVersion|encodingFormat)", _STATE_FORMAT),
        (r"spark\.sql\.streaming\.stateStore\.rocksdb\.(formatVersion|changelogCheckpointing\.enabled)", _STATE_FORMAT),
        (r"spark\.sql\.streaming\.[A-Za-z]+\.stateFormatVersion", _STATE_FORMAT),
        (r"spark\.hadoop\.fs\.job\..*", "leave it out: Spark finds a job's files by it"),
        (
            r"spark\.sql\.streaming\.statefulOperator\.allowMultiple",
            "leave it out: operators have watermarks of their own",
        ),
        (r"spark\.sql\.constraintPropagation\.enabled", "leave it out: joins of streams would join NULL with NULL"),
        (r"spark\.sql\.adaptive\.enabled", "leave it out: state needs a fixed number of partitions"),
        (r"spark\.master", "set parallelism"),
        (r"spark\.app\.name", "set name"),
    )
)


def spark_conf(subject: Subject) -> Iterator[Problem]:
    """The job does not override settings of the runtime."""
    for key in subject.spec.spark_conf:
        fix = next((fix for pattern, fix in _OWNED if pattern.fullmatch(key)), None)
        if fix is not None:
            yield Problem("sparkConf", f"{key} is set by the runtime", fix)
        elif not key.startswith("spark."):
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
