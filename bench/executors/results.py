"""The measurements of executors, and the files that keep them."""

from __future__ import annotations

from bench.results import Records, Row

LOCAL, REMOTE = "local[2]", "2 executors"
MEASURED_EXECUTORS = 2
ONE_PROCESS, EMPTY, SURVIVED = "one process", "2 executors, empty disks", "2 executors that survived"


class Cost(Row):
    """A bounded job in this process, or on two executors; CPU seconds of the whole process tree.

    `warm_cpu` are the CPU seconds from the end of the first batch to the end of the last full one, for `warm_records`.
    `late_cpu` are those of the later half of all full batches, and `late_threads` shares them out by what threads do.
    """

    side: str
    round: int
    wall: float
    cpu: float
    warm_cpu: float
    warm_records: int
    batches_ms: tuple[float, ...]
    load_before: float
    late_cpu: float
    late_records: int
    late_threads: dict[str, float]


class Taken(Row):
    """A checkpoint of a job with a number of executors, 0 for none, and of state partitions, behind a batch.

    Seconds, requests, and the files that its manifest lists.
    """

    executors: int
    partitions: int
    load_before: float
    seconds: float
    puts: int
    other_requests: int
    put_bytes: int
    files: int
    manifest_bytes: int


class Restored(Row):
    """A restore: seconds from the driver's start until the job runs, and until its first batch has ended."""

    way: str
    state_bytes: int
    running: float
    first_batch: float
    gets: int
    load_before: float


class Crowd(Row):
    """The driver's answers to many agents that store a checkpoint at once: requests, seconds, and its CPU seconds."""

    agents: int
    requests: int
    seconds: float
    cpu: float
    failures: int
    load_before: float


class Manifested(Row):
    """A manifest: its bytes, the CPU seconds to write and to read it, and the bytes of its objects in memory."""

    files: int
    size: int
    write_cpu: float
    read_cpu: float
    memory: int
    load_before: float


COSTS = Records("executors-cost", Cost)
CHECKPOINTS = Records("executors-checkpoints", Taken)
RESTORES = Records("executors-restore", Restored)
CROWDS = Records("executors-agents", Crowd)
MANIFESTS = Records("executors-manifest", Manifested)
