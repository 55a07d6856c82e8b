"""The directories of a job's epochs, in its work directory."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path


def drop_epochs(workdir: Path, kept: Collection[int]) -> None:
    """Delete the directories of epochs.

    Args:
        kept: the epochs whose directories stay.
    """
    for directory in workdir.iterdir():
        if directory.is_dir() and directory.name.isdigit() and int(directory.name) not in kept:
            shutil.rmtree(directory, ignore_errors=True)
