"""Checks settings of the whole job: Spark's configuration, secrets, parallelism."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from streamjob.job.checks.subject import Subject, where
from streamjob.job.connectors.options import all_options, is_secret
from streamjob.job.model.problem import Problem

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
        (r"spark\.python\.unix\.domain\.socket\.dir", "leave it out: sockets are in the work directory"),
        (r"spark\.master", "set parallelism"),
        (r"spark\.app\.name", "set name"),
    )
)

_FOR_ALL_TO_SEE = "leave it out: other users of the machine can reach the ports of Spark"
_FIXED: Mapping[str, tuple[str, str]] = {
    "spark.authenticate": ("true", _FOR_ALL_TO_SEE),
    "spark.python.unix.domain.socket.enabled": ("true", _FOR_ALL_TO_SEE),
    "spark.executorenv.tz": ("UTC", "leave it out: local times of another zone may name two moments"),
    "spark.ui.killenabled": ("false", "leave it out: a query that a reader of the page ends would end the job"),
    "spark.ui.port": ("0", "leave it out: Spark's page opens from the page of the job, and needs no port of its own"),
}
"""Settings, in lower case, that may only be given the value that they have anyway."""


def spark_conf(subject: Subject) -> Iterator[Problem]:
    """The job does not override settings of the runtime."""
    for key, value in subject.spec.spark_conf.items():
        fix = next((fix for pattern, fix in _OWNED if pattern.fullmatch(key)), None)
        fixed = _FIXED.get(key.lower())
        if fix is not None:
            yield Problem("sparkConf", f"{key} is set by the runtime", fix)
        elif fixed is not None and value.strip().lower() != fixed[0].lower():
            yield Problem("sparkConf", f"{key} is set to {fixed[0]} by the runtime", fixed[1])
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
