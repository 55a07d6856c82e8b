"""The directories of an executor: an epoch's files, holds of checkpoints, and files that are being brought."""

from __future__ import annotations

import shutil
import threading
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

from streamjob.snapshot.manifest import FileRef
from streamjob.store.effects import Locate
from streamjob_runtime.restoring.download import DownloadStatistics, download
from streamjob_runtime.spark.checkpoint_dir.hold import release

_HOLDS = "holds"
_BRINGING = "bringing"


class ExecutorDisk:
    """The disk of one executor; any thread may call it.

    Args:
        root: the directory with the files of `job:/…` paths.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = threading.Lock()
        self._begun: set[int] = set()
        shutil.rmtree(root / _BRINGING, ignore_errors=True)

    def begin(self, epoch: int) -> None:
        """Begin an epoch in an empty directory: another log of the job may have had an epoch with this number."""
        with self._lock:
            if epoch not in self._begun:
                shutil.rmtree(self.root / str(epoch), ignore_errors=True)
                self._begun.add(epoch)

    def checkpoint(self, epoch: int, chain: str) -> Path:
        """Return the directory of Spark's checkpoint of a chain."""
        return self.root / str(epoch) / chain / "checkpoint"

    def segments(self, epoch: int, chain: str) -> Path:
        """Return the directory of the segments that a chain has written."""
        return self.root / str(epoch) / chain / "stream"

    def hold(self, epoch: int, checkpoint: int) -> Path:
        """Return the directory of a checkpoint's held files, with a subdirectory per chain."""
        return self.root / str(epoch) / _HOLDS / str(checkpoint)

    def holds(self) -> list[Path]:
        """Return the directories of held checkpoints, newest first."""
        found = [hold for epoch in self._epochs() for hold in _numbered(epoch / _HOLDS)]
        return sorted(found, key=_epoch_and_checkpoint, reverse=True)

    def bring(
        self, files: Sequence[FileRef], locate: Locate, target: Path, candidates: Sequence[Path]
    ) -> DownloadStatistics:
        """Create files below a directory, each whole from its first moment on; see `download`."""
        # Beside at first, and moved in whole: a hold that runs meanwhile must not see half a file.
        beside = self.root / _BRINGING / uuid.uuid4().hex
        try:
            brought = download(files, locate, beside, candidates)
            for path in dict.fromkeys(ref.path for ref in files):
                (target / path).parent.mkdir(parents=True, exist_ok=True)
                (beside / path).replace(target / path)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
        return brought

    def retain(self, epoch: int, checkpoint: int) -> None:
        """Delete what only checkpoints before one, and epochs before its own, need."""
        for hold in self.holds():
            if _epoch_and_checkpoint(hold) < (epoch, checkpoint):
                release(hold)
        for each in self._epochs():
            if int(each.name) < epoch:
                shutil.rmtree(each, ignore_errors=True)

    def _epochs(self) -> Iterator[Path]:
        return _numbered(self.root)


def _epoch_and_checkpoint(hold: Path) -> tuple[int, int]:
    return int(hold.parts[-3]), int(hold.name)


def _numbered(directory: Path) -> Iterator[Path]:
    if directory.is_dir():
        yield from (each for each in directory.iterdir() if each.name.isdigit())
