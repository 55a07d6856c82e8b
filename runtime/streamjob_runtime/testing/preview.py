"""Shows what an operator returns for a sample of its sources: publishes nothing, and leaves no checkpoint."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

from streamjob.job.loading.load import LoadedJob
from streamjob.job.model.spec import JobSpec, SinkSpec
from streamjob.job.model.suggest import did_you_mean
from streamjob_runtime.testing.errors import UnknownPart
from streamjob_runtime.testing.job_test import JobTest
from streamjob_runtime.testing.sampling import sample
from streamjob_runtime.testing.session import Session
from streamjob_runtime.testing.values import shown

_SINK = "_preview"
_WITHIN = 30.0


@dataclass(frozen=True, slots=True)
class Preview:
    """The rows that an operator or source returns for a sample.

    Args:
        columns: the names of its columns.
        rows: the first rows, as mappings of columns to values.
        total: the number of all rows that it returned.
        read: the number of rows of each source that went into it.
    """

    name: str
    columns: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]
    total: int
    read: Mapping[str, int]

    def texts(self) -> list[list[str]]:
        """Return the rows as texts, in the order of the columns."""
        return [[shown(row[name]) for name in self.columns] for row in self.rows]

    def summary(self) -> str:
        """Return where the rows come from, in one line."""
        read = ", ".join(f"{rows} of {name!r}" for name, rows in self.read.items())
        return f"{len(self.rows)} of {self.total} rows that {self.name!r} returns for these rows of its sources: {read}"

    def __repr__(self) -> str:
        return "\n".join([self.summary(), *(shown(dict(row)) for row in self.rows)])

    def _repr_html_(self) -> str:
        """Return a table, for notebooks."""
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        body = "".join(f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in row)}</tr>" for row in self.texts())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{escape(self.summary())}</p>"


def preview(
    loaded: LoadedJob,
    name: str | None,
    session: Session,
    directory: Path,
    *,
    rows: int = 20,
    sampled: int = 1000,
    given: Mapping[str, Sequence[Any]] | None = None,
    within: float = _WITHIN,
) -> Preview:
    """Return what an operator returns for a sample of its sources, as if they ended with it.

    Args:
        name: an operator or a source; None for the input of the job's only sink.
        session: the Spark to run on, with the connectors of the sources.
        directory: an existing directory below the session's.
        rows: the number of rows to return.
        sampled: the number of rows to read from each source.
        given: rows for sources, instead of a sample of them.
        within: the longest time to wait for the rows of one source, in seconds.

    Raises:
        UnknownPart: the job has no such operator or source.
        UnreadableSource: Spark cannot read a source.
        InvalidRows: given rows do not fit their source.
        JobUnderTestFailed: an operator failed.
    """
    part = part_of(loaded, name, given or {})
    read = {}
    with JobTest(part, session, directory / uuid.uuid4().hex[:8], within=max(120.0, within)) as job:
        for source in part.spec.sources:
            if given is not None and source.name in given:
                found = list(given[source.name])
            else:
                scratch = directory / uuid.uuid4().hex[:8]
                found = list(sample(session.spark, loaded, source, sampled, scratch, within))
            job.feed(source.name, found)
            read[source.name] = len(found)
        job.finish()
        returned, columns = job.rows(_SINK), job.columns(_SINK)
    return Preview(part.spec.sinks[0].input, columns, tuple(returned[:rows]), len(returned), read)


def part_of(loaded: LoadedJob, name: str | None, given: Iterable[str] = ()) -> LoadedJob:
    """Return the part of a job that an operator or source depends on, with one sink behind it.

    Args:
        name: the operator or source; None for the input of the job's only sink.
        given: names of sources.

    Raises:
        UnknownPart: the job does not have it, or one of `given`, or None does not name one.
    """
    spec = loaded.spec
    known = spec.inputs()
    if name is None:
        if len(spec.sinks) != 1:
            fix = did_you_mean("", known, "operators and sources")
            raise UnknownPart(f"job {spec.name!r} has {len(spec.sinks)} sinks, so name the operator to show", fix)
        name = spec.sinks[0].input
    if name not in known:
        fix = did_you_mean(name, known, "operators and sources")
        raise UnknownPart(f"job {spec.name!r} has no operator or source {name!r}", fix)
    sources = [each.name for each in spec.sources]
    for each in given:
        if each not in sources:
            raise UnknownPart(f"job {spec.name!r} has no source {each!r}", did_you_mean(each, sources, "sources"))
    needed = _needed(spec, name)
    return replace(
        loaded,
        spec=spec.model_copy(
            update={
                "sources": tuple(each for each in spec.sources if each.name in needed),
                "operators": tuple(each for each in spec.operators if each.name in needed),
                "sinks": (SinkSpec(name=_SINK, input=name, format="noop"),),
            }
        ),
    )


def _needed(spec: JobSpec, name: str) -> set[str]:
    operators = {each.name: each for each in spec.operators}
    needed: set[str] = set()
    waiting = [name]
    while waiting:
        each = waiting.pop()
        if each not in needed:
            needed.add(each)
            waiting += [before.name for before in operators[each].inputs] if each in operators else ()
    return needed
