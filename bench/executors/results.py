"""The measurements of executors, in the form of `executors.json`."""

from __future__ import annotations

from bench.model import Circumstances, Model
from pydantic import Field


class Cost(Model):
    """A bounded job in this process, or on two executors; CPU seconds of the whole process tree.

    `warm_cpu` are the CPU seconds from the end of the first batch to the end of the last full one, for `warm_records`.
    `late_cpu` are those of the later half of all full batches, and `late_threads` shares them out by what threads do.
    """

    side: str
    round: int
    records: int
    rows: int
    wall: float
    cpu: float
    warm_cpu: float
    warm_records: int
    batches_ms: tuple[float, ...]
    load_before: float
    late_cpu: float | None = None
    late_records: int = 0
    late_threads: dict[str, float] = Field(default_factory=dict)


class Start(Model):
    """An executor's start: seconds from its process to its registration with Spark, and CPU seconds by then."""

    archive: bool
    round: int
    seconds: float
    cpu: float
    load_before: float


class Taken(Model):
    """A checkpoint behind a batch: seconds, requests by operation, and the files that its manifest lists."""

    seconds: float
    requests: dict[str, int]
    put_bytes: int
    files: int
    manifest_bytes: int


class Checkpoints(Model):
    """The checkpoints of a job with a number of executors, 0 for none, and of state partitions."""

    executors: int
    partitions: int
    load_before: float
    samples: tuple[Taken, ...]


class Restored(Model):
    """A restore: seconds from the driver's start until the job runs, and until its first batch has ended."""

    way: str
    state_bytes: int
    running: float
    first_batch: float
    gets: int
    load_before: float


class Lost(Model):
    """The loss of an executor: seconds from SIGKILL to new output, to later output, and to its publication.

    `phases` are those until the driver knows of the loss, until the agent starts another Java, and until Spark has it.
    """

    round: int
    first: float
    beyond: float
    published: float
    load_before: float
    phases: tuple[float, ...] = ()


class Crowd(Model):
    """The driver's answers to many agents that store a checkpoint at once: requests, seconds, and its CPU seconds."""

    agents: int
    requests: int
    seconds: float
    cpu: float
    failures: int
    load_before: float


class Manifested(Model):
    """A manifest: its bytes, the CPU seconds to write and to read it, and the bytes of its objects in memory."""

    files: int
    size: int
    write_cpu: float
    read_cpu: float
    memory: int
    load_before: float


class Part(Model):
    """When and where a part was measured."""

    circumstances: Circumstances


class Costs(Part):
    """The part `cost`."""

    runs: tuple[Cost, ...]


class Starts(Part):
    """The part `start`."""

    runs: tuple[Start, ...]


class AllCheckpoints(Part):
    """The part `checkpoints`."""

    runs: tuple[Checkpoints, ...]


class Restores(Part):
    """The part `restore`."""

    runs: tuple[Restored, ...]


class Losses(Part):
    """The part `loss`."""

    runs: tuple[Lost, ...]


class FlinkLosses(Part):
    """The part `flink`; its phases are those until the JobManager knows of the loss, and until the job runs again."""

    runs: tuple[Lost, ...]


class Crowds(Part):
    """The part `agents`."""

    runs: tuple[Crowd, ...]


class Manifests(Part):
    """The part `manifest`."""

    runs: tuple[Manifested, ...]


class Executors(Model):
    """All parts, each None until it was measured."""

    cost: Costs | None = None
    start: Starts | None = None
    checkpoints: AllCheckpoints | None = None
    restore: Restores | None = None
    loss: Losses | None = None
    flink: FlinkLosses | None = None
    agents: Crowds | None = None
    manifest: Manifests | None = None
