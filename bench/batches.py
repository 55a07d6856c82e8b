"""Reads what a query has left behind: its batches, its rows, and the CPU that it used in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pyarrow import parquet


class Batch(NamedTuple):
    """A batch: its duration in ms, and its end in seconds since 1970."""

    milliseconds: float
    end: float


def our_batches(workdir: Path, chain: str = "*") -> list[Batch]:
    """Return the batches that a chain ran, from the files that Spark left in the job's work directory.

    Args:
        workdir: of the job.
        chain: its uid; it can be left out if the job has only one.
    """
    (checkpoint,) = workdir.glob(f"*/{chain}/checkpoint")
    return batches_of(checkpoint)


def batches_of(checkpoint: Path) -> list[Batch]:
    """Return the batches of a query, from the files in its checkpoint directory."""
    return batches_between(_times(checkpoint / "offsets"), _times(checkpoint / "commits"))


def _times(directory: Path) -> dict[int, float]:
    return {int(file.name): file.stat().st_mtime for file in directory.iterdir() if file.name.isdecimal()}


def batches_between(planned: Mapping[int, float], committed: Mapping[int, float]) -> list[Batch]:
    """Return the batches with the time from commit to commit.

    The first and the last batch count from their planning: the last is the flush, before which the query is restarted.

    Args:
        planned: seconds since 1970 at which each batch's positions were written.
        committed: and its commit.
    """
    numbers = sorted(committed)
    begins = {after: committed[before] for before, after in pairwise(numbers)}
    for number in (numbers[0], numbers[-1]):
        begins[number] = planned[number]
    return [Batch((committed[number] - begins[number]) * 1000, committed[number]) for number in numbers]


def used_between(samples: Sequence[tuple[float, float]], begin: float, end: float) -> float:
    """Return the CPU seconds used from `begin` to `end`, interpolated between samples of (time, used so far)."""
    times, used = zip(*samples, strict=True)
    at_begin, at_end = np.interp([begin, end], times, used)
    return float(at_end - at_begin)


def count_rows(output: Path) -> int:
    """Return the rows in all Parquet files below a directory."""
    return sum(parquet.read_metadata(file).num_rows for file in output.rglob("part-*.parquet"))
