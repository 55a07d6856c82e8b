"""The benchmark's measurements, in the form of `results.json`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """Base of the results: immutable."""

    model_config = ConfigDict(frozen=True)


M = TypeVar("M", bound=Model)


class Circumstances(Model):
    """Where, when and with which command a part was measured."""

    command: str
    begun: str
    ended: str
    machine: str
    versions: dict[str, str]

    def __str__(self) -> str:
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return f"`{self.command}`, {self.begun} to {self.ended}, on {self.machine}; {versions}."


class CheckpointRun(Model):
    """A completed checkpoint: seconds from its trigger to its record in the log, bytes of the files that it names."""

    id: int
    seconds: float
    state_bytes: int


class Run(Model):
    """One run of one side of the comparison; times in seconds, batches in ms.

    `warm_cpu` are the CPU seconds from the end of the first batch to the end of the last full one, for `warm_records`.
    """

    workload: str
    side: str
    round: int
    records: int
    rows: int
    wall: float
    user: float
    system: float
    load_before: float
    load_after: float
    batches_ms: tuple[float, ...]
    warm_cpu: float | None = None
    warm_records: int = 0
    requests: dict[str, int] = {}
    put_bytes: int = 0
    checkpoints: tuple[CheckpointRun, ...] = ()

    @property
    def cpu(self) -> float:
        """CPU seconds of the whole process tree."""
        return self.user + self.system

    @property
    def cpu_per_million(self) -> float:
        """CPU seconds per million records."""
        return self.cpu * 1e6 / self.records

    @property
    def warm_cpu_per_million(self) -> float | None:
        """CPU seconds per million records after the first batch; None if there was only one."""
        return self.warm_cpu * 1e6 / self.warm_records if self.warm_cpu is not None else None


class Recovery(Model):
    """Seconds from a SIGKILL: to the first output of the next process, to the first beyond what the killed one had
    written, and to the first that readers see."""

    side: str
    round: int
    first: float
    beyond: float
    published: float
    load_before: float
    load_after: float


class Increment(Model):
    """A checkpoint after a change of a share of the keys; share 1 is the checkpoint of all state.

    Of `checkpointed_bytes`, `snapshot_bytes` are of RocksDB's own files, which it writes when it makes a snapshot; the
    rest are the changes since the last checkpoint, as Spark logs them.
    """

    keys: int
    share: float
    changed_bytes: int
    checkpointed_bytes: int
    snapshot_bytes: int
    state_bytes: int
    seconds: float
    load_before: float | None = None
    load_after: float | None = None


class Comparison(Model):
    """The runs of all sides of one workload."""

    circumstances: Circumstances
    keys: int
    runs: tuple[Run, ...]


class Recoveries(Model):
    """The kills of all sides."""

    circumstances: Circumstances
    interval: float
    runs: tuple[Recovery, ...]


class Increments(Model):
    """The checkpoints of all sizes of state."""

    circumstances: Circumstances
    payload: int
    runs: tuple[Increment, ...]


class Results(Model):
    """The last results of each part, the comparison's by workload; None for what was not measured."""

    comparison: dict[str, Comparison] = {}
    recovery: Recoveries | None = None
    increments: Increments | None = None


def load(kind: type[M], file: Path) -> M | None:
    """Return the results in a file; None if it does not exist."""
    return kind.model_validate_json(file.read_bytes()) if file.exists() else None


def save(results: M, file: Path, render: Callable[[M], str]) -> None:
    """Replace a file of results, and the report next to it, with an upper-case name: `kafka.json`, `KAFKA.md`."""
    file.write_text(results.model_dump_json(indent=1) + "\n")
    file.with_name(f"{file.stem.upper()}.md").write_text(render(results))
