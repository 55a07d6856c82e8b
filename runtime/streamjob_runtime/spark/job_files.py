"""What Spark calls the directories that hold a job's files: a name that means a directory of its own to each process.

Java's half is `JobFiles.java`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_SCHEME = "job:///"


@dataclass(frozen=True, slots=True)
class JobFiles:
    """The directory in which this process keeps the files that `job:/…` paths name."""

    root: Path

    def location(self, directory: Path) -> str:
        """Return the `job:/…` path of a directory below the root.

        Raises:
            ValueError: it is not below the root.
        """
        return _SCHEME + directory.absolute().relative_to(self.root.absolute()).as_posix()


def copying_hint(files: JobFiles, conf: Mapping[str, str], environment: Mapping[str, str]) -> str | None:
    """Return what would let Spark link its files of state; None if it can link them.

    Args:
        files: where the job's files are.
        conf: Spark's configuration.
        environment: the process's environment.
    """
    device = _device(files.root)
    for directory in (environment.get("SPARK_LOCAL_DIRS") or conf["spark.local.dir"]).split(","):
        if _device(Path(directory)) != device:
            return (
                f"Spark copies each file of state, because its local directory {directory} and the work directory "
                f"{files.root} are on two file systems: put both on one, and Spark links the files instead"
            )
    return None


def _device(directory: Path) -> int:
    """Return the file system on which a directory is, or will be once somebody makes it."""
    there = next(each for each in (directory.absolute(), *directory.absolute().parents) if each.exists())
    return there.stat().st_dev
