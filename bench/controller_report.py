"""Writes CONTROLLER.md: the controller's measured response time and cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from bench.controller_model import Change, Controlled, Idle
from bench.summary import quantile
from bench.tables import MB, Table

REACTION_SECONDS = 2.0
"""The time within which the controller must react to 99 of 100 changed specs."""

MOST_MEMORY = 300 * MB
FLAT = 1.1
"""Requests per minute with the most jobs, as a multiple of those with the fewest, that still count as no growth."""

_READS = frozenset({"get", "list"})
_WRITES = frozenset({"post", "put", "patch", "delete"})
_KINDS = {
    "interval": "checkpoint interval, by a PATCH to the running driver",
    "parallelism": "parallelism: stop with a savepoint, next driver",
    "suspend": "suspension: stop with a savepoint",
    "resume": "resumption: next driver",
}

_HEAD = """\
# Cost and speed of the controller

<!-- Written by `make bench-controller`; change bench/controller_report.py. -->

Numbers as measured. `controller.json` has every change.
"""

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


def render(results: Controlled) -> str:
    """Return CONTROLLER.md."""
    jobs = results.deployment.jobs
    parts = [_HEAD, f"{results.circumstances}\n", _SETTING]
    if results.loads:
        loads = ", ".join(f"{load:.1f} ({part})" for part, load in results.loads.items())
        parts += [f"Load averages of the machine at the end of parts, including all other work: {loads}.\n"]
    if results.changes and results.idle:
        parts += ["## Goals\n", goals_table(results).markdown() + "\n"]
    parts += ["## Deployment\n", _DEPLOYMENT.format(jobs=jobs), deployment_table(results).markdown() + "\n"]
    if results.changes:
        count = len(results.changes) + results.unanswered
        text = _CHANGES.format(count=count, rate=results.rate, jobs=jobs)
        parts += ["## Changed specs\n", text, changes_table(results.changes).markdown() + "\n"]
        if results.unanswered:
            parts += [f"Without an answer: {results.unanswered}.\n"]
    if results.idle:
        lease = max(each.per_minute(each.of("leases")) for each in results.idle)
        without = (
            "" if results.served_without is None else f"; {results.served_without:.0f} a minute without controller"
        )
        text = _IDLE.format(seconds=results.idle[0].seconds, lease=lease, interval=results.interval, without=without)
        parts += ["## Idle\n", text, idle_table(results.idle).markdown() + "\n"]
    return "\n".join(parts)


def tables(results: Controlled) -> Iterator[tuple[str, Table]]:
    """Yield what there is so far, for a terminal."""
    yield "deployment", deployment_table(results)
    if results.changes:
        yield f"changed specs, {results.unanswered} without an answer", changes_table(results.changes)
    if results.idle:
        yield "idle, per minute", idle_table(results.idle)


def growth(idle: Sequence[Idle]) -> float | None:
    """Return the requests with the most jobs as a multiple of those with the fewest; None with one number of jobs."""
    still = sorted((each for each in idle if not each.checkpoints), key=lambda each: each.jobs)
    if len(still) < 2 or still[0].jobs == still[-1].jobs:
        return None
    few, many = (each.per_minute(sum(each.requests.values())) for each in (still[0], still[-1]))
    return many / few


def goals_table(results: Controlled) -> Table:
    """Return what was to be reached, and what was."""
    slowest = quantile([change.status for change in results.changes], 0.99)
    acted = quantile([change.action for change in results.changes], 0.99)
    grown = growth(results.idle)
    soon = f"below {REACTION_SECONDS:g} s"
    rows = [
        ("reaction of the status, p99", soon, f"{slowest:.2f} s", _met(slowest < REACTION_SECONDS)),
        ("the same of the action, p99", soon, f"{acted:.2f} s", _met(acted < REACTION_SECONDS)),
        (
            "memory (RSS), most",
            f"below {MOST_MEMORY / MB:.0f} MB",
            f"{results.peak_rss / MB:.0f} MB",
            _met(results.peak_rss < MOST_MEMORY),
        ),
    ]
    if grown is not None:
        wanted = f"at most × {FLAT:g}"
        rows.append(("idle requests, most jobs to fewest", wanted, f"× {grown:.2f}", _met(grown <= FLAT)))
    return Table(("figure", "goal", "measured", "reached"), tuple(rows))


def deployment_table(results: Controlled) -> Table:
    """Return how long it took until all jobs ran, and until they were gone."""
    made = results.deployment
    rows = [
        (f"{made.jobs:,} created: accepted", f"{made.accepted:.1f}"),
        ("half of them Ready", f"{made.ready_half:.1f}"),
        ("all of them Ready", f"{made.ready_all:.1f}"),
        *((f"{each.jobs:,} deleted: gone", f"{each.seconds:.1f}") for each in results.deletions),
    ]
    return Table(("StreamJobs", "seconds"), tuple(rows))


def changes_table(changes: Sequence[Change]) -> Table:
    """Return how fast changes were answered, by kind and over all."""
    head = ("change", "number", *(f"{what} {share}" for what in ("status", "action") for share in _SHARES), "Ready p50")
    kinds = [kind for kind in _KINDS if any(change.kind == kind for change in changes)]
    groups = [(_KINDS[kind], [change for change in changes if change.kind == kind]) for kind in kinds]
    rows = []
    for name, group in [*groups, ("all", list(changes))]:
        settled = [change.settled for change in group if change.settled is not None]
        rows.append(
            (
                name,
                str(len(group)),
                *_spread(group, lambda change: change.status),
                *_spread(group, lambda change: change.action),
                f"{quantile(settled, 0.5):.2f}" if settled else "–",
            )
        )
    return Table(head, tuple(rows))


def idle_table(idle: Sequence[Idle]) -> Table:
    """Return what the controller costs per minute while nothing is asked of it."""
    head = ("StreamJobs", "checkpoints", "reads", "writes", "all", "to drivers", "CPU s", "RSS, MB")
    rows = [
        (
            f"{each.jobs:,}",
            "complete" if each.checkpoints else "none",
            f"{each.per_minute(each.requests_of(_READS)):.0f}",
            f"{each.per_minute(each.requests_of(_WRITES)):.0f}",
            f"{each.per_minute(each.served):.0f}",
            f"{each.per_minute(sum(each.control.values())):.0f}",
            f"{each.per_minute(each.cpu):.1f}",
            f"{each.rss / MB:.0f}",
        )
        for each in sorted(idle, key=lambda each: (each.checkpoints, each.jobs))
    ]
    return Table(head, tuple(rows))


_SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}


def _spread(changes: Iterable[Change], figure: Callable[[Change], float]) -> list[str]:
    values = [figure(change) for change in changes]
    return [f"{quantile(values, share):.2f}" for share in _SHARES.values()]


def _met(is_so: bool) -> str:
    return "yes" if is_so else "no"
