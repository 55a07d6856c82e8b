"""Decides what is left to do for a checkpoint's files, from what the bucket knows about their uploads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from streamjob_runtime.sinks.bucket.writing import StagedFile


@dataclass(frozen=True, slots=True)
class Standing:
    """The files of a checkpoint.

    Args:
        pending: their uploads are whole, and wait for completion.
        missing: their uploads were completed before, or are lost.
    """

    pending: tuple[StagedFile, ...]
    missing: tuple[StagedFile, ...]


def standing(files: Sequence[StagedFile], parts: Sequence[Mapping[int, str] | None]) -> Standing:
    """Return how the files stand.

    Args:
        parts: for each, the tags of its upload's parts by number; None if the upload does not exist.
    """
    pending: list[StagedFile] = []
    missing: list[StagedFile] = []
    for file, known in zip(files, parts, strict=True):
        whole = known is not None and all(known.get(number) == tag for number, tag in enumerate(file.parts, start=1))
        (pending if whole else missing).append(file)
    return Standing(tuple(pending), tuple(missing))
