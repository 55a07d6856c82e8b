"""Whether a changed spec can go on from a job's state; asked before the job that runs is stopped for it."""

from __future__ import annotations

from streamjob.errors import StreamJobError
from streamjob.job.plan import plan
from streamjob.job.reading import read_spec
from streamjob.snapshot.manifest import Manifest
from streamjob.stored.comparing import compare
from streamjob_operator.decisions.decision import Resource
from streamjob_operator.observation import Compatibility, StoredLog
from streamjob_operator.resources.base import Metadata
from streamjob_operator.resources.parts import Storage
from streamjob_operator.resources.streamjob import StreamJob, StreamJobSpec
from streamjob_operator.storing import Snapshots


async def compatibility(
    resource: Resource, log: StoredLog | None, storage: Storage, stored: Snapshots
) -> Compatibility | None:
    """Return whether the revision that a spec asks for can go on from the log's newest completion.

    None if there is nothing to be asked: no change, no state, or a job that only its driver can read.

    Args:
        resource: the StreamJob.
        log: its log.
        storage: how the log is reached.
        stored: reads it.
    """
    spec = resource.usable
    if spec is None or spec.job is None or spec.upgrade_mode == "stateless" or log is None or log.newest is None:
        return None
    names_a_snapshot = spec.initial_savepoint_path is not None or spec.initial_snapshot_ref is not None
    nonce, handled = spec.savepoint_redeploy_nonce, resource.status.reconciliation.nonces.savepoint_redeploy
    starts_there = resource.status.job_status.attempt == 0 or nonce not in (None, handled)
    if names_a_snapshot and starts_there:
        return None
    wanted = resource.wanted
    if wanted is None or wanted.name == resource.status.reconciliation.last_reconciled_revision:
        return None
    try:
        manifest = await stored.manifest(resource.namespace, log.newest.path, storage)
    except StreamJobError:
        return None
    problems = _problems(resource, spec, manifest, log.newest.path)
    return Compatibility(revision=wanted.name, compatible=not problems, problems=problems)


def _problems(resource: Resource, spec: StreamJobSpec, manifest: Manifest, uri: str) -> tuple[str, ...]:
    file = StreamJob(metadata=Metadata(name=resource.name, namespace=resource.namespace), spec=spec).job_file()
    job = read_spec(file).spec
    if job is None:
        return ()
    compared = compare(job, plan(job), manifest, uri, spec.allow_non_restored_state)
    return tuple(str(error) for error in compared.refusals)
