"""Changes a StreamJob for a viewer. The controller's own rights write it, so an event names the viewer."""

from __future__ import annotations

from dataclasses import dataclass

from streamjob.client.jobs_models import Done
from streamjob_operator.cluster.api import Cluster
from streamjob_operator.cluster.events import EventRecorder
from streamjob_operator.cluster.kinds import STREAM_JOB, Object
from streamjob_operator.web.rights import Viewer

SCALED = "ScaledByViewer"
SUSPENDED = "SuspendedByViewer"
RESUMED = "ResumedByViewer"
_LONGEST_NAME = 200


@dataclass(slots=True)
class Actions:
    """Changes specs, as `kubectl` would."""

    cluster: Cluster
    events: EventRecorder

    async def scale(self, job: Object, viewer: Viewer, parallelism: int) -> Done:
        """Give a job another number of task slots. Raises ClusterError."""
        await self._patch(job, {"parallelism": parallelism})
        await self._record(job, SCALED, f"the page's viewer {_name(viewer)} has set parallelism to {parallelism}")
        return Done(sentence=f"Parallelism is set to {parallelism}: the controller restarts the job from its state.")

    async def suspend(self, job: Object, viewer: Viewer, *, suspend: bool) -> Done:
        """Suspend a job, or resume it. Raises ClusterError."""
        await self._patch(job, {"suspend": suspend})
        verb = "suspended" if suspend else "resumed"
        reason = SUSPENDED if suspend else RESUMED
        await self._record(job, reason, f"the page's viewer {_name(viewer)} has {verb} the job")
        after = "the controller stops it and keeps its state" if suspend else "the controller starts it from its state"
        return Done(sentence=f"The job is {verb}: {after}.")

    async def _patch(self, job: Object, change: Object) -> None:
        meta = job["metadata"]
        # The uid: another job of that name may not be the one that the viewer looked at.
        await self.cluster.patch(
            STREAM_JOB, meta["namespace"], meta["name"], {"metadata": {"uid": meta["uid"]}, "spec": change}
        )

    async def _record(self, job: Object, reason: str, message: str) -> None:
        subject = {"apiVersion": STREAM_JOB.api_version, "kind": STREAM_JOB.kind, **job}
        await self.events.record(subject, "Normal", reason, message)


def _name(viewer: Viewer) -> str:
    return repr(viewer.name[:_LONGEST_NAME])
