"""The revisions of a job, kept as ControllerRevisions that go when their StreamJob goes."""

from __future__ import annotations

from streamjob_operator.cluster.api import AlreadyExists, Cluster
from streamjob_operator.cluster.kinds import CONTROLLER_REVISION, Object
from streamjob_operator.decisions.values.revision import Revision
from streamjob_operator.objects.names import UID_LABEL, metadata
from streamjob_operator.resources.base import Metadata


async def list_revisions(cluster: Cluster, job: Object) -> tuple[Revision, ...]:
    """Return the stored revisions of a StreamJob, oldest first."""
    meta = job["metadata"]
    found = await cluster.list(CONTROLLER_REVISION, meta["namespace"], labels=f"{UID_LABEL}={meta['uid']}")
    found.sort(key=lambda thing: (int(thing.get("revision") or 0), str(thing["metadata"]["name"])))
    return tuple(Revision(thing["metadata"]["name"], thing.get("data") or {}) for thing in found)


async def ensure_revision(cluster: Cluster, job: Object, revision: Revision) -> None:
    """Store a revision, unless it exists; the name identifies the content."""
    meta = job["metadata"]
    thing: Object = {
        "apiVersion": CONTROLLER_REVISION.api_version,
        "kind": CONTROLLER_REVISION.kind,
        "metadata": metadata(Metadata.model_validate(meta), revision.name),
        "data": dict(revision.content),
        "revision": int(meta.get("generation") or 0),
    }
    try:
        await cluster.create(CONTROLLER_REVISION, thing)
    except AlreadyExists:
        stored = await cluster.get(CONTROLLER_REVISION, meta["namespace"], revision.name)
        owners = {owner.get("uid") for owner in stored["metadata"].get("ownerReferences") or ()}
        if meta["uid"] not in owners:
            # Left by a StreamJob of that name that is gone; garbage collection may take it at any time.
            await cluster.delete(CONTROLLER_REVISION, meta["namespace"], revision.name)
            await cluster.create(CONTROLLER_REVISION, thing)
