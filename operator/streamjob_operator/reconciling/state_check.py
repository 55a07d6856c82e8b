"""Checks whether a changed spec can continue from a job's state, before the running job is stopped for it."""

from __future__ import annotations

from streamjob.errors import StreamJobError
from streamjob_operator.decisions.values.decision import Resource
from streamjob_operator.decisions.values.observation import Compatibility, StoredLog
from streamjob_operator.evaluation.cache import Evaluations, NotEvaluated, Question
from streamjob_operator.evaluation.state_fit import mismatches
from streamjob_operator.resources.parts import Storage
from streamjob_operator.storage.job_stores import JobStores


async def compatibility(
    resource: Resource, log: StoredLog | None, storage: Storage, stored: JobStores, evaluations: Evaluations
) -> Compatibility | None:
    """Return whether the revision of a spec can continue from the log's newest completion.

    None if there is nothing to be asked: no change, no state, or a job that only its driver can read.

    Args:
        storage: how the log is reached.
        stored: reads it.

    Raises:
        StillEvaluating: that takes longer than a moment.
        EvaluationUnavailable: no process can be started for it.
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
    uri = log.newest.path
    arguments = (resource.name, resource.namespace, spec, manifest, uri)
    version = resource.generation, uri
    question = Question(resource.namespace, resource.name, resource.uid, version, mismatches, arguments)
    try:
        problems = await evaluations.answer(question)
    except NotEvaluated as error:
        problems = (f"whether the spec fits the state could not be found out: {error}",)
    return Compatibility(revision=wanted.name, compatible=not problems, problems=problems)
