"""What is wrong with a StreamJob, in the words of `streamjob validate`, as far as it can be told without its image."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from streamjob.job.checks import CHECKS, Subject, operators
from streamjob.job.problem import by_part
from streamjob.job.reading import read_spec
from streamjob_operator.cluster.kinds import Object
from streamjob_operator.decisions.decision import Resource
from streamjob_operator.decisions.schedule import BadSchedule, next_time
from streamjob_operator.places import place_problems
from streamjob_operator.resources.base import Metadata
from streamjob_operator.resources.status import StreamJobStatus
from streamjob_operator.resources.streamjob import StreamJob, StreamJobSpec
from streamjob_operator.revision import Revision, revision_of

_Known = tuple[StreamJobSpec | None, tuple[str, ...], Revision | None]

_IN_THE_POD = Path("/")
# Modules are in the runtime's image, where the driver looks them up.
_CHECKS = tuple(check for check in CHECKS if check is not operators.functions)


class Resources:
    """Reads StreamJobs; what is wrong with a spec is found out once for each generation of it, the newest remembered.

    Args:
        most: how many specs are remembered.
    """

    def __init__(self, most: int = 5000) -> None:
        self._known: OrderedDict[str, tuple[int, _Known]] = OrderedDict()
        self._most = most

    def read(self, thing: Object) -> Resource:
        """Return a StreamJob as decisions take it; never raises for a wrong spec."""
        metadata = Metadata.model_validate(thing["metadata"])
        generation, known = self._known.get(metadata.uid, (None, None))
        if known is None or generation != metadata.generation:
            spec, problems = read_problems(thing)
            known = spec, problems, None if spec is None or problems else revision_of(metadata.name, spec)
            self._known[metadata.uid] = metadata.generation, known
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        spec, problems, revision = known
        return Resource(
            name=metadata.name,
            namespace=metadata.namespace,
            uid=metadata.uid,
            generation=metadata.generation,
            deleted=metadata.deletion_timestamp is not None,
            spec=spec,
            problems=problems,
            status=read_status(thing),
            revision=revision,
        )


def read_status(thing: Object) -> StreamJobStatus:
    """Return the stored status."""
    return StreamJobStatus.model_validate(thing.get("status") or {})


def read_problems(thing: Object) -> tuple[StreamJobSpec | None, tuple[str, ...]]:
    """Return the spec, None if it cannot be read as one, and all that is wrong with it."""
    try:
        spec = StreamJobSpec.model_validate(thing.get("spec") or {})
    except ValidationError as error:
        return None, tuple(_said(each) for each in error.errors(include_url=False, include_input=False))
    resource = StreamJob(metadata=Metadata.model_validate(thing["metadata"]), spec=spec)
    return spec, (*_schedule_problems(spec), *place_problems(spec), *_job_problems(resource))


def _schedule_problems(spec: StreamJobSpec) -> tuple[str, ...]:
    if spec.savepoints.schedule is None:
        return ()
    try:
        next_time(spec.savepoints.schedule, 0)
    except BadSchedule as error:
        return (f"spec.savepoints.schedule: {error}",)
    return ()


def _job_problems(resource: StreamJob) -> tuple[str, ...]:
    job = resource.job_file()
    if job is None:
        return ()
    reading = read_spec(job)
    problems = list(reading.problems)
    if reading.spec is not None:
        subject = Subject(reading.spec, _IN_THE_POD, {}, _trust_spark, reading.unread, reading.complete)
        found = [problem for check in _CHECKS for problem in check(subject)]
        problems += [each for each in found if each.where not in reading.broken]
    return tuple(str(problem) for problem in by_part(problems))


def _trust_spark(_query: str) -> None:
    """Spark reads more than sqlglot does; what only the driver can tell, it tells."""


def _said(error: Any) -> str:
    where = ".".join(str(part) for part in ("spec", *error["loc"]))
    return f"{where}: {error['msg']}"
