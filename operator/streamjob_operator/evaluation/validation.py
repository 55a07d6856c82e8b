"""Finds the problems of a StreamJob that need no image to be found, in the words of `streamjob validate`."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from streamjob.job.checks import CHECKS, Subject, functions
from streamjob.job.checks.validate import run_checks
from streamjob.job.model.nesting import MOST_LEVELS, too_deep
from streamjob.job.model.problem import by_part
from streamjob.job.model.reading import read_spec
from streamjob.job.model.spec import JobSpec
from streamjob.job.planning.available_now import run_problems, schedule_problems
from streamjob.job.planning.on_executors import NotOnExecutors, check_on_executors
from streamjob_operator.cluster.kinds import Object
from streamjob_operator.decisions.values.revision import Revision, revision_of
from streamjob_operator.evaluation.volumes import place_problems
from streamjob_operator.objects.spark_settings import HEAP
from streamjob_operator.resources.base import Metadata
from streamjob_operator.resources.pods import HEAP_SHARE
from streamjob_operator.resources.streamjob import StreamJob, StreamJobSpec

Judgement = tuple[StreamJobSpec | None, tuple[str, ...], Revision | None]
"""A spec, or None if it cannot be read as one; its problems; and its revision, or None if it has problems."""

_log = logging.getLogger(__name__)
_LONGEST_ERROR = 300
_IN_THE_POD = Path("/")
# Modules are in the runtime's image, where the driver looks them up.
_CHECKS = tuple(check for check in CHECKS if check is not functions.functions)


def judge(thing: Object) -> Judgement:
    """Return the spec of a StreamJob, all that is wrong with it, and if nothing is, its revision; never raises."""
    spec, problems = read_problems(thing)
    if spec is None or problems:
        return spec, problems, None
    try:
        return spec, (), revision_of(thing["metadata"]["name"], spec)
    except Exception as error:
        return spec, (_unexpected("cannot be made a revision of", error),), None


def read_problems(thing: Object) -> tuple[StreamJobSpec | None, tuple[str, ...]]:
    """Return the spec, None if it cannot be read as one, and all that is wrong with it; never raises."""
    if (field := too_deep(thing.get("spec"))) is not None:
        return None, (f"spec.{field}: has more than {MOST_LEVELS} levels; no field needs more than a few",)
    try:
        spec = StreamJobSpec.model_validate(thing.get("spec") or {})
    except ValidationError as error:
        return None, tuple(_said(each) for each in error.errors(include_url=False, include_input=False))
    except Exception as error:
        return None, (_unexpected("cannot be read", error),)
    try:
        resource = StreamJob(metadata=Metadata.model_validate(thing["metadata"]), spec=spec)
        return spec, (*_schedule_problems(spec), *place_problems(spec), *_heap_problems(spec), *_job_problems(resource))
    except Exception as error:
        return spec, (_unexpected("cannot be checked", error),)


def _unexpected(what: str, error: Exception) -> str:
    """Return the problem of a spec that cannot be checked: it must not run, and its author has to know why."""
    _log.error("a spec %s", what, exc_info=error)
    return f"spec: {what}: {type(error).__name__}: {str(error)[:_LONGEST_ERROR]}"


def _schedule_problems(spec: StreamJobSpec) -> tuple[str, ...]:
    cron, time_zone = (None, None) if spec.schedule is None else (spec.schedule.cron, spec.schedule.time_zone)
    return tuple(map(str, schedule_problems(spec.savepoints.schedule, cron, time_zone)))


def _heap_problems(spec: StreamJobSpec) -> tuple[str, ...]:
    """The heap follows from the container's memory, so Spark's own setting would be overridden."""
    own = (spec.job or {}).get("sparkConf")
    given = {"spec.sparkConf": spec.spark_conf, "spec.job.sparkConf": own if isinstance(own, dict) else {}}
    return tuple(
        f"{place}: {HEAP} is set by driver.memory, of which Java gets {HEAP_SHARE:.0%}; leave it out, and set that"
        for place, conf in given.items()
        if HEAP in conf
    )


def _job_problems(resource: StreamJob) -> tuple[str, ...]:
    job = resource.job_file()
    if job is None:
        return ()
    reading = read_spec(job)
    problems = list(reading.problems)
    if reading.spec is not None:
        subject = Subject(reading.spec, _IN_THE_POD, {}, _trust_spark, reading.unread, reading.complete)
        problems += [each for each in run_checks(subject, _CHECKS) if each.where not in reading.broken]
    if problems or reading.spec is None or not reading.complete:
        return tuple(str(problem) for problem in by_part(problems))
    runs = [] if resource.spec.schedule is None else run_problems(reading.spec)
    return (*map(str, runs), *_executor_problems(resource.spec, reading.spec))


def _executor_problems(spec: StreamJobSpec, job: JobSpec) -> tuple[str, ...]:
    if spec.executor is None:
        return ()
    try:
        check_on_executors(job, local_files=False)
    except NotOnExecutors as error:
        return (f"spec.executor: {error}",)
    return ()


def _trust_spark(_query: str) -> None:
    """Spark accepts more than sqlglot; the driver reports problems that only Spark can find."""


def _said(error: Any) -> str:
    where = ".".join(str(part) for part in ("spec", *error["loc"]))
    return f"{where}: {error['msg']}"
