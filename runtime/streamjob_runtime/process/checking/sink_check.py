"""Lets sinks verify what they keep, for `streamjob snapshots verify`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from streamjob.ids import Epoch
from streamjob.protocol.log.records import JobId
from streamjob.snapshot.manifest import Manifest
from streamjob_runtime.sinks.checking.verifying import verify_sinks
from streamjob_runtime.sinks.factory import SinkSurroundings


def problems(newest: Manifest, job: JobId) -> Iterator[str]:
    """Yield a sentence for each problem that the sinks of a job find.

    Args:
        newest: the job's newest completion.
    """
    surroundings = SinkSurroundings(job.name, job.namespace, Epoch(0), Path.cwd())
    yield from dict.fromkeys(f"sink {uid}: {error.what}" for uid, error in verify_sinks(newest, surroundings))
