"""Kafka sources: their options, as far as a file tells."""

from __future__ import annotations

from collections.abc import Iterator

from streamjob.job import kafka
from streamjob.job.checks.subject import Subject, where
from streamjob.job.problem import Problem


def sources(subject: Subject) -> Iterator[Problem]:
    """The options of a Kafka source are those of the connector, and none of the ones that it refuses."""
    for source in subject.spec.sources:
        if source.format != kafka.FORMAT:
            continue
        for what, fix in kafka.problems(source.options):
            yield Problem(where(source), what, fix)
