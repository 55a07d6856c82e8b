"""The measured costs of incremental checkpoints, in the form of `incremental.json`."""

from __future__ import annotations

from bench.model import Circumstances, Model


class Step(Model):
    """One checkpoint: seconds of its parts, seconds of CPU, requests by operation, and bytes written."""

    hold: float
    upload: float
    complete: float
    delete: float
    cpu: float
    changed_bytes: int
    put_bytes: int
    manifest_bytes: int
    requests: dict[str, int]

    @property
    def seconds(self) -> float:
        """From the cut to the record in the log."""
        return self.hold + self.upload + self.complete


class Restored(Model):
    """A restore into an empty directory: seconds to find the snapshot and to download its files, and its cost.

    The seconds are the medians of this number of restores.
    """

    times: int = 1

    resolve: float
    download: float
    requests: dict[str, int]
    objects: int
    packs: int
    stored_bytes: int
    living_bytes: int


class Sized(Model):
    """Checkpoints of a job with a number of shared files and a length of history, each after an equal change.

    `whole_history_bytes` is the size of the source's log, which went up whole if it did not go up in pieces.
    """

    files: int
    history: int
    whole_history_bytes: int
    load_before: float
    first: Step
    steps: tuple[Step, ...]
    restored: Restored


class Aged(Model):
    """The same job after a number of checkpoints, with or without rewritten packs."""

    files: int
    checkpoints: int
    repacking: bool
    load_before: float
    put_bytes: int
    seconds: float
    cpu: float
    restored: Restored


class BySize(Model):
    """Jobs that differ in size."""

    circumstances: Circumstances
    jobs: tuple[Sized, ...]


class ByAge(Model):
    """An old job, with packs that are rewritten and without."""

    circumstances: Circumstances
    jobs: tuple[Aged, ...]


class Incremental(Model):
    """All of it."""

    size: BySize | None = None
    age: ByAge | None = None
