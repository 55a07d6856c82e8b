"""The controller's measurements, in the form of `controller.json`."""

from __future__ import annotations

from bench.model import Circumstances, Model
from pydantic import Field


class Deployment(Model):
    """Seconds from the first StreamJob's creation until the last was accepted, and until shares of all were Ready."""

    jobs: int
    accepted: float
    ready_half: float
    ready_all: float


class Deletion(Model):
    """Seconds from the first deletion of a number of StreamJobs until none of them was left."""

    jobs: int
    seconds: float


class Change(Model):
    """A changed spec; seconds from the moment before the write was sent.

    Args:
        kind: what was changed.
        answered: the API server's answer to the write.
        status: the first status for the new generation in a watch.
        action: what the change asks for has reached the driver, or for a resumption the API server.
        settled: the StreamJob was Ready again; None if not before the end of the measurement.
    """

    kind: str
    answered: float
    status: float
    action: float
    settled: float | None = None


class Idle(Model):
    """A time in which no spec changed.

    Args:
        jobs: how many there were.
        checkpoints: whether the drivers completed checkpoints.
        seconds: how long.
        requests: of the controller to the Kubernetes API, by verb and resource, as it counts them itself.
        served: by the API server to whomever, watches aside.
        control: of the controller to drivers, by call.
        cpu: seconds that the controller used.
        rss: bytes of the controller's memory at its end.
    """

    jobs: int
    checkpoints: bool
    seconds: float
    requests: dict[str, int]
    served: int
    control: dict[str, int]
    cpu: float
    rss: int

    def per_minute(self, count: float) -> float:
        """Return a count over the whole time as one per minute."""
        return count * 60 / self.seconds

    def requests_of(self, verbs: frozenset[str]) -> int:
        """Return the controller's requests of some verbs to the Kubernetes API."""
        return sum(count for name, count in self.requests.items() if name.split()[0] in verbs)

    def of(self, resource: str) -> int:
        """Return the controller's requests for one resource."""
        return sum(count for name, count in self.requests.items() if name.split()[1] == resource)


class Controlled(Model):
    """All of it.

    Args:
        interval: between two checkpoints of a driver, as the spec has it.
        rate: changes per second, on average.
        loads: the machine's load averages of a minute at the end of parts.
        unanswered: changes that nothing came of.
        peak_rss: the most bytes of memory that the controller had.
        served_without: requests per minute that the API server served while there was no controller.
    """

    circumstances: Circumstances
    interval: str
    deployment: Deployment
    changes: tuple[Change, ...] = ()
    rate: float = 0.0
    loads: dict[str, float] = Field(default_factory=dict)
    unanswered: int = 0
    idle: tuple[Idle, ...] = ()
    served_without: float | None = None
    deletions: tuple[Deletion, ...] = ()
    peak_rss: int = 0
