"""Keeps the files of a cut while the query continues: one hard link per file.

Spark deletes files of old versions, but never writes to a finished file: each appears by rename, an SST under a unique
name before the zip that refers to it. So a link preserves the content, and nothing is copied.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from streamjob.ids import BatchId
from streamjob_runtime.spark.checkpoint_dir.errors import CheckpointFileMissing
from streamjob_runtime.spark.checkpoint_dir.files import CutFiles, StoreVersion, files_for, state_files

LISTINGS = 3
"""Listings before a vanished file is an error: Spark may delete files between listing and linking."""


@dataclass(frozen=True, slots=True)
class Hold:
    """The files of a cut, linked into a separate directory."""

    directory: Path
    files: CutFiles


def hold(
    checkpoint: Path,
    batch: BatchId,
    target: Path,
    directories: Sequence[int] | None = None,
    *,
    state_elsewhere: bool = False,
) -> Hold:
    """Link the files of a cut into `target`; call this soon after Spark has committed `batch`.

    Args:
        checkpoint: Spark's checkpoint directory of a chain; its query may be running.
        batch: the committed batch of the cut.
        target: a directory on the same file system that does not exist yet.
        directories: see `OffsetEntry.offsets`.
        state_elsewhere: whether other processes have, and hold, the files of state.

    Raises:
        NotCommitted: Spark has not committed the batch, or has deleted its commit.
        CheckpointFileMissing: a file was missing in all listings.
        UnsupportedStateFormat: the state was not written in checkpoint format 2.
        UnreadableCheckpointFile: a file does not have the format of Spark 4.3.
    """
    return _hold(checkpoint, target, lambda: files_for(checkpoint, batch, directories, state_elsewhere=state_elsewhere))


def hold_stores(checkpoint: Path, batch: BatchId, stores: Sequence[StoreVersion], target: Path) -> Hold:
    """Link the files of some state stores of a cut into `target`; see `hold`."""
    return _hold(checkpoint, target, lambda: CutFiles(batch, state_files(checkpoint, batch, stores), ()))


def _hold(checkpoint: Path, target: Path, list_files: Callable[[], CutFiles]) -> Hold:
    for listing in range(1, LISTINGS + 1):
        try:
            files = list_files()
            _link(checkpoint, files, target)
        except CheckpointFileMissing:
            release(target)
            if listing == LISTINGS:
                raise
        except BaseException:
            release(target)
            raise
        else:
            return Hold(target, files)
    raise AssertionError("unreachable")


def release(target: Path) -> None:
    """Remove the directory of a hold, if it exists."""
    try:
        shutil.rmtree(target)
    except FileNotFoundError:
        return


def _link(checkpoint: Path, files: CutFiles, target: Path) -> None:
    target.mkdir(parents=True)
    made = {""}
    # Plain strings, since a cut may have thousands of files, and path objects would cost more than the links.
    for path in files:
        folder = path.rpartition("/")[0]
        if folder not in made:
            (target / folder).mkdir(parents=True, exist_ok=True)
            made.add(folder)
        try:
            os.link(f"{checkpoint}/{path}", f"{target}/{path}")
        except FileNotFoundError:
            raise CheckpointFileMissing(checkpoint, path, files.batch) from None
