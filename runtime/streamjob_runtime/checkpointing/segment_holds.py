"""Keeps segments in flight until they are in the store, while their readers go on: one hard link per segment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from streamjob.ids import NO_BATCH, ChainUid
from streamjob.protocol.segment_places import SegmentNames
from streamjob_runtime.chain.channels.in_flight import segment_folder, segment_path
from streamjob_runtime.spark.checkpoint_dir.files import CutFiles
from streamjob_runtime.spark.checkpoint_dir.hold import Hold

Kept = Mapping[str, SegmentNames]
"""The segments in flight that other processes hold for a checkpoint, by process."""


def keep_segments(segments: SegmentNames, directory_of: Callable[[ChainUid], Path], hold: Path) -> None:
    """Link segments in flight beside the hold of a chain's cut.

    Args:
        segments: their names, by the chain that wrote them.
        directory_of: returns the directory of a chain's segments.
        hold: the directory of the hold, which does not exist yet.
    """
    for producer, names in segments.items():
        folder = _beside(hold) / segment_folder(producer)
        if names:
            folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            os.link(directory_of(producer) / name, folder / name)


def with_segments(held: Hold | None, segments: SegmentNames, hold: Path) -> Hold:
    """Move kept segments, which have unique names, into the hold of their cut; return it.

    Args:
        held: the files of Spark's checkpoint; None if there are none.
    """
    hold.mkdir(parents=True, exist_ok=True)
    if _beside(hold).exists():
        for folder in _beside(hold).iterdir():
            folder.rename(hold / folder.name)
    files = CutFiles(NO_BATCH, (), ()) if held is None else held.files
    paths = (segment_path(producer, name) for producer, names in segments.items() for name in names)
    return Hold(hold, replace(files, unique=(*files.unique, *paths)))


def _beside(hold: Path) -> Path:
    # Separate at first: the hold of Spark's files creates its directory, and creates it again if a file has vanished.
    return hold.with_name(f".{hold.name}")
