"""Compares a job with a snapshot: the slow part of that question, on plain values, for a process of its own."""

from __future__ import annotations

from streamjob.comparison.graphs import compare
from streamjob.job.model.reading import read_spec
from streamjob.job.planning.dead_letters import with_dead_letters
from streamjob.job.planning.plan import plan
from streamjob.snapshot.manifest import Manifest
from streamjob_operator.resources.base import Metadata
from streamjob_operator.resources.streamjob import StreamJob, StreamJobSpec


def mismatches(name: str, namespace: str, spec: StreamJobSpec, manifest: Manifest, uri: str) -> tuple[str, ...]:
    """Return why a StreamJob cannot continue from a snapshot; empty if it can.

    Args:
        spec: the spec that it is to run.
    """
    file = StreamJob(metadata=Metadata(name=name, namespace=namespace), spec=spec).job_file()
    written = read_spec(file).spec
    if written is None:
        return ()
    job = with_dead_letters(written)
    compared = compare(job, plan(job), manifest, uri, spec.allow_non_restored_state)
    return tuple(str(error) for error in compared.refusals)
