"""The settings that all parts share, and the command lines of jobs on executors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench.object_store import ObjectStore
from bench.processes import REPOSITORY
from bench.running import command

JOBS = REPOSITORY / "bench" / "jobs"
MEMORY = "600m"


@dataclass(frozen=True)
class Setting:
    """The setting that all parts share.

    Args:
        work: directories of the jobs are made below it.
        cache: for input that is made once.
        store: the S3 server.
        timeout: seconds for whatever is waited for.
    """

    work: Path
    cache: Path
    store: ObjectStore
    timeout: float

    def location(self, name: str) -> str:
        """Return a place for a job's snapshots."""
        return f"s3://{self.store.server.bucket}/{name}"


def on_executors(job: str, location: str, workdir: Path, changes: dict[str, object], executors: int) -> list[str]:
    """Return the command that runs a job on executors of one core each; in its own process for none."""
    made = command(JOBS / job, location, workdir, changes)
    return [*made, "--executors", str(executors), "--executor-memory", MEMORY] if executors else made
