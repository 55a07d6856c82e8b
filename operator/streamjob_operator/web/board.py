"""The rows of all jobs, made once for all viewers, and each viewer's share of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from streamjob.client.jobs_models import JobsView
from streamjob_operator.cluster.kinds import Object
from streamjob_operator.web.figures import AskedFigures
from streamjob_operator.web.jobs import Jobs
from streamjob_operator.web.rights import Viewer
from streamjob_operator.web.rows import FRESH_SECONDS, Figures, row_of
from streamjob_operator.web.viewers import Viewers

Document = dict[str, Any]
_Version = tuple[str, float | None, bool]


@dataclass(slots=True)
class Board:
    """The rows as JSON values without null; a row that has not changed is the same object.

    Args:
        now: seconds since 1970.
    """

    jobs: Jobs
    figures: AskedFigures
    viewers: Viewers
    now: Callable[[], float]
    _rows: dict[str, tuple[_Version, Document]] = field(default_factory=dict)

    async def document(self, viewer: Viewer) -> Document:
        """Return the jobs that a viewer may read, as `JobsView` has them.

        Raises:
            TooManyReviews: ask again later.
            ClusterError: the API server could not be asked.
        """
        everything = await self.jobs.all()
        namespaces = {each["metadata"]["namespace"] for each in everything}
        readable = await self.viewers.readable(viewer, namespaces)
        mine = [each for each in everything if readable is None or each["metadata"]["namespace"] in readable]
        self.figures.want(mine)
        self._forget(everything)
        now = self.now()
        rows = {f"{each['metadata']['namespace']}/{each['metadata']['name']}": self._row(each, now) for each in mine}
        head = JobsView(viewer=viewer.name, every_namespace=readable is None, now=now, jobs={})
        return {**head.model_dump(mode="json", by_alias=True), "jobs": rows}

    def _row(self, job: Object, now: float) -> Document:
        meta = job["metadata"]
        figures = self.figures.of(meta["uid"])
        version = meta["resourceVersion"], figures.at if figures else None, _is_fresh(figures, now)
        known = self._rows.get(meta["uid"])
        if known is None or known[0] != version:
            row = row_of(job, figures, now).model_dump(mode="json", by_alias=True, exclude_none=True)
            known = version, row
            self._rows[meta["uid"]] = known
        return known[1]

    def _forget(self, jobs: list[Object]) -> None:
        if len(self._rows) > 2 * len(jobs) + 100:
            kept = {each["metadata"]["uid"] for each in jobs}
            self._rows = {uid: row for uid, row in self._rows.items() if uid in kept}


def _is_fresh(figures: Figures | None, now: float) -> bool:
    return figures is not None and now - figures.at < FRESH_SECONDS
