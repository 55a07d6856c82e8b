"""The reason why a start needs all state of a job on one disk."""

from __future__ import annotations

from streamjob.errors import CannotRestore


class NeedsOneDisk(CannotRestore):
    """State has to be rewritten or rearranged before the start, and it is on the disks of several processes."""

    def __init__(self, what: str) -> None:
        super().__init__(what, "run the job without --executors until it has a checkpoint")
