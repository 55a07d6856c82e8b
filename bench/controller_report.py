"""Writes CONTROLLER.md: the controller's measured response time and cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from bench.results import Page, Records, Row, head
from bench.tables import MB, Table, quantile
from pydantic import Field

INTERVAL = "1m"
"""Between two checkpoints of a driver."""

REACTION_SECONDS = 2.0
"""The time within which the controller must react to 99 of 100 changed specs."""

MOST_MEMORY = 300 * MB
FLAT = 1.1
"""Requests per minute with the most jobs, as a multiple of those with the fewest, that still count as no growth."""

READS = frozenset({"get", "list"})
WRITES = frozenset({"post", "put", "patch", "delete"})
_KINDS = {
    "interval": "checkpoint interval, by a PATCH to the running driver",
    "parallelism": "parallelism: stop with a savepoint, next driver",
    "suspend": "suspension: stop with a savepoint",
    "resume": "resumption: next driver",
}
_SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}


class Deployment(Row):
    """The run as a whole.

    Args:
        jobs: how many StreamJobs there are.
        accepted: seconds from the first one's creation until the last was accepted.
        ready_half: and until half of them were Ready.
        ready_all: and until all of them were.
        rate: changes per second, on average.
        unanswered: changes that nothing came of.
        loads: the machine's load averages of a minute at the end of parts.
        peak_rss: the most bytes of memory that the controller had.
        served_without: requests per minute that the API server served while there was no controller.
    """

    jobs: int
    accepted: float
    ready_half: float
    ready_all: float
    rate: float
    served_without: float
    unanswered: int = 0
    peak_rss: int = 0
    loads: dict[str, float] = Field(default_factory=dict)


class Change(Row):
    """A changed spec; seconds from the moment before the write was sent.

    Args:
        kind: what was changed.
        status: the first status for the new generation in a watch.
        action: what the change asks for has reached the driver, or for a resumption the API server.
        settled: the StreamJob was Ready again; None if not before the end of the measurement.
    """

    kind: str
    status: float
    action: float
    settled: float | None = None


class Idle(Row):
    """A time in which no spec changed.

    Args:
        jobs: how many there were.
        checkpoints: whether the drivers completed checkpoints.
        seconds: how long.
        reads: requests of the controller to the Kubernetes API, as it counts them itself.
        writes: and those that write.
        leases: requests of both kinds about its Lease.
        served: by the API server to whomever, watches aside.
        control: requests of the controller to drivers.
        cpu: seconds that the controller used.
        rss: bytes of the controller's memory at its end.
    """

    jobs: int
    checkpoints: bool
    seconds: float
    reads: int
    writes: int
    leases: int
    served: int
    control: int
    cpu: float
    rss: int

    def per_minute(self, count: float) -> float:
        """Return a count over the whole time as one per minute."""
        return count * 60 / self.seconds


DEPLOYMENT = Records("controller", Deployment)
CHANGES = Records("controller-changes", Change)
IDLE = Records("controller-idle", Idle)

_SETTING = """\
The controller as the chart runs it (default flags, a Lease, one namespace) and an API server with etcd on the same
machine, which also runs all simulated parts. The pods are real objects on nodes of kwok. Each pod has its own loopback
address, where a process answers the control API as the runtime does, with the job's token, and completes checkpoints on
a real S3 server, with the runtime's own protocol: it claims the log, and writes manifests and records. It computes
nothing, and a driver is running as soon as its pod is.
"""

_DEPLOYMENT = """\
{jobs:,} StreamJobs, created as fast as the API server accepts them. Ready is the condition: the driver runs and has
completed a checkpoint, which a simulated driver does one second after its start.
"""

_CHANGES = """\
{count} changed specs at random moments, {rate:.1f} per second, while {jobs:,} jobs run. Seconds from before the write
was sent. "Status" is the first status with the new `observedGeneration`, as a second watch delivers it.
"Action" is the arrival of the resulting request: at the driver's control API, or, for a resumption, of the new pod at
the API server. "Ready" is when the StreamJob is Ready again, including the time of drivers, kwok and the scheduler.
"""

_IDLE = """\
{seconds:.0f} s each in which no spec changes. "Reads" and "writes" are the controller's requests to the API server by
its own count, the renewals of its Lease included ({lease:.0f} a minute); watches are not included: one per kind,
reopened every five minutes. The controller writes one status per job and completed checkpoint (every {interval} here),
at most one per reconciliation (15 s); without checkpoints it writes nothing. "All" is the number of requests that the
API server served to all clients, by `apiserver_request_total`{without}. Requests to drivers grow with the number of
jobs: each driver gets one every 15 s.
"""


def _render() -> str:
    measured, changes, idle = DEPLOYMENT.load(), CHANGES.load().runs, IDLE.load().runs
    (made,) = measured.runs
    loads = ", ".join(f"{load:.1f} ({part})" for part, load in made.loads.items())
    lease = max(each.per_minute(each.leases) for each in idle)
    without = f"; {made.served_without:.0f} a minute without controller"
    parts = [
        head("Cost and speed of the controller", "bench-controller", "controller_report.py"),
        f"{measured.where}\n",
        _SETTING,
        f"Load averages of the machine at the end of parts, including all other work: {loads}.\n",
        "## Goals\n",
        goals_table(made, changes, idle).markdown(),
        "## Deployment\n",
        _DEPLOYMENT.format(jobs=made.jobs),
        deployment_table(made).markdown(),
        "## Changed specs\n",
        _CHANGES.format(count=len(changes) + made.unanswered, rate=made.rate, jobs=made.jobs),
        changes_table(changes).markdown(),
        *([f"Without an answer: {made.unanswered}.\n"] if made.unanswered else []),
        "## Idle\n",
        _IDLE.format(seconds=idle[0].seconds, lease=lease, interval=INTERVAL, without=without),
        idle_table(idle).markdown(),
    ]
    return "\n".join(parts)


PAGE = Page("CONTROLLER", _render)


def growth(idle: Sequence[Idle]) -> float | None:
    """Return the requests with the most jobs as a multiple of those with the fewest; None with one number of jobs."""
    still = sorted((each for each in idle if not each.checkpoints), key=lambda each: each.jobs)
    if len(still) < 2 or still[0].jobs == still[-1].jobs:
        return None
    few, many = (each.per_minute(each.reads + each.writes) for each in (still[0], still[-1]))
    return many / few


def goals_table(made: Deployment, changes: Sequence[Change], idle: Sequence[Idle]) -> Table:
    """Return what was to be reached, and what was."""

    def goals() -> Iterator[tuple[str, str, str, bool]]:
        soon = f"below {REACTION_SECONDS:g} s"
        slowest = quantile([change.status for change in changes], 0.99)
        yield "reaction of the status, p99", soon, f"{slowest:.2f} s", slowest < REACTION_SECONDS
        acted = quantile([change.action for change in changes], 0.99)
        yield "the same of the action, p99", soon, f"{acted:.2f} s", acted < REACTION_SECONDS
        most = f"below {MOST_MEMORY / MB:.0f} MB"
        yield "memory (RSS), most", most, f"{made.peak_rss / MB:.0f} MB", made.peak_rss < MOST_MEMORY
        if (grown := growth(idle)) is not None:
            yield "idle requests, most jobs to fewest", f"at most × {FLAT:g}", f"× {grown:.2f}", grown <= FLAT

    rows = tuple((*texts, "yes" if reached else "no") for *texts, reached in goals())
    return Table(("figure", "goal", "measured", "reached"), rows)


def deployment_table(made: Deployment) -> Table:
    """Return how long it took until all jobs ran."""
    rows = (
        (f"{made.jobs:,} created: accepted", f"{made.accepted:.1f}"),
        ("half of them Ready", f"{made.ready_half:.1f}"),
        ("all of them Ready", f"{made.ready_all:.1f}"),
    )
    return Table(("StreamJobs", "seconds"), rows)


def changes_table(changes: Sequence[Change]) -> Table:
    """Return how fast changes were answered, by kind and over all."""
    groups = [(name, [change for change in changes if change.kind == kind]) for kind, name in _KINDS.items()]

    def of(figure: Callable[[Change], float | None], share: float) -> Callable[[tuple[str, list[Change]]], str]:
        def text(group: tuple[str, list[Change]]) -> str:
            values = [value for change in group[1] if (value := figure(change)) is not None]
            return f"{quantile(values, share):.2f}" if values else "–"

        return text

    return Table.of(
        [group for group in (*groups, ("all", list(changes))) if group[1]],
        ("change", lambda group: group[0]),
        ("number", lambda group: len(group[1])),
        *((f"status {name}", of(lambda change: change.status, share)) for name, share in _SHARES.items()),
        *((f"action {name}", of(lambda change: change.action, share)) for name, share in _SHARES.items()),
        ("Ready p50", of(lambda change: change.settled, 0.5)),
    )


def idle_table(idle: Sequence[Idle]) -> Table:
    """Return what the controller costs per minute while nothing is asked of it."""
    return Table.of(
        sorted(idle, key=lambda each: (each.checkpoints, each.jobs)),
        ("StreamJobs", lambda each: f"{each.jobs:,}"),
        ("checkpoints", lambda each: "complete" if each.checkpoints else "none"),
        ("reads", lambda each: f"{each.per_minute(each.reads):.0f}"),
        ("writes", lambda each: f"{each.per_minute(each.writes):.0f}"),
        ("all", lambda each: f"{each.per_minute(each.served):.0f}"),
        ("to drivers", lambda each: f"{each.per_minute(each.control):.0f}"),
        ("CPU s", lambda each: f"{each.per_minute(each.cpu):.1f}"),
        ("RSS, MB", lambda each: f"{each.rss / MB:.0f}"),
    )
