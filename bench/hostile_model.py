"""The effect of hostile clients on a job, in the form of `hostile.json`."""

from __future__ import annotations

from bench.model import Circumstances, Model
from pydantic import Field

QUIET, DECOY, HOSTILE = "quiet", "decoy", "hostile"


class Phase(Model):
    """A time with hostile clients or without; what began in it counts.

    Args:
        kind: `quiet`, `hostile`, or `decoy` if the clients attack the same servers in another process.
        turn: its number among those of its kind.
        seconds: how long it lasted.
        load: the machine's load average of the last minute at its end.
        batches: durations of the job's batches, ms.
        checkpoints: durations of its checkpoints, ms.
        kept: times to an answer over a connection that was kept, ms.
        fresh: times to an answer over a new connection each, ms.
        probes: times to an answer of `/healthz` at the port of the metrics, over a new connection each, ms.
        unanswered: requests with the token and probes that got no answer.
        driver_cpu: CPU seconds of the driver in Python.
        jvm_cpu: CPU seconds of the processes below it.
        clients_cpu: CPU seconds of the hostile clients.
        descriptors: the most open files of the driver.
        connections: the hostile clients' connections, by kind.
    """

    kind: str
    turn: int
    seconds: float
    load: float
    batches: tuple[int, ...] = ()
    checkpoints: tuple[int, ...] = ()
    kept: tuple[float, ...] = ()
    fresh: tuple[float, ...] = ()
    probes: tuple[float, ...] = ()
    unanswered: int = 0
    driver_cpu: float = 0.0
    jvm_cpu: float = 0.0
    clients_cpu: float = 0.0
    descriptors: int = 0
    connections: dict[str, int] = Field(default_factory=dict)


class Hostile(Model):
    """All phases of a run with the given number of simultaneous hostile clients.

    Args:
        clients: how many.
        niceness: of the job's processes; below 0 on a machine that others keep busy.
    """

    circumstances: Circumstances
    clients: int
    niceness: int = 0
    phases: tuple[Phase, ...] = ()
