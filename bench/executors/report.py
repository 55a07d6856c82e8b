"""Writes EXECUTORS.md: what executors cost, and what they would cost if there were many, as it was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import median

from bench.executors.paper import paper
from bench.executors.results import (
    CHECKPOINTS,
    COSTS,
    CROWDS,
    LOCAL,
    MANIFESTS,
    REMOTE,
    RESTORES,
    Cost,
    Crowd,
    Manifested,
    Restored,
    Taken,
)
from bench.results import Page
from bench.tables import MB, Table, goal_list, loads, mid, of_side, paired, quantile, spread

NEAR_LOCAL = 1.10
"""Most CPU per record on executors, as a multiple of one process with as many slots."""

_HEAD = """\
# The cost of executors

<!-- Written by `make bench-executors`; change bench/executors/report.py. -->

Numbers as measured, on one machine: ratios within a part can be compared, seconds of different parts cannot.
`results/` has every run. The S3 server is versitygw on the same machine.
"""
_COST = """\
The windows of a minute over 10,000 keys, from Parquet to Parquet, a million records a batch: in one process
with two task slots, and on two executors with a core each. CPU is that of the whole process tree, agents and
driver included; `per million` leaves out the first batch and the last one, and with them starts and ends; `later half`
leaves out the first half of the batches.
"""

_THREADS = """\
What threads do with it in the later half of the batches:
"""

_CHECKPOINTS = """\
A job that keeps the newest payload of 4,000 keys, 4 MB in all. Each checkpoint follows a batch that changes
every key. Requests are all that reach the S3 server from the trigger until the record is in the log. `0` is a
job in one process. Medians, and in brackets the least and the most.
"""

_RESTORE = """\
The same job with more keys, from the start of its process until it runs, and until its first batch has ended;
Java's start is a part of both. Executors that survive the driver's SIGKILL have the files still. With
`streamjob run --executors`, executors start with the driver; in the two last rows they run before it.
"""

_AGENTS = """\
The driver's real HTTP routes, and as many real clients in another process. Each agent has 4 state partitions of
60 files; at a checkpoint it asks which are known, asks for 4 keys, and reports its files. CPU is the driver's
alone.
"""

_MANIFEST = """\
A manifest with so many files of state, each with an object of its own; CPU seconds to write it as JSON and to
read it, and the memory of its objects.
"""


def _render() -> str:
    costs, taken, restores, crowds, manifests = (
        COSTS.load(),
        CHECKPOINTS.load(),
        RESTORES.load(),
        CROWDS.load(),
        MANIFESTS.load(),
    )
    parts = [_HEAD]
    parts += ["## CPU and batches\n", f"{costs.where} {loads(costs.runs)}\n", _COST, cost_table(costs.runs).markdown()]
    parts += [_THREADS, threads_table(costs.runs).markdown(), goal_list(_goals(costs.runs))]
    for title, text, measured, table in (
        ("Checkpoints", _CHECKPOINTS, taken, checkpoints_table(taken.runs)),
        ("Restore", _RESTORE, restores, restore_table(restores.runs)),
        ("Agents of many executors", _AGENTS, crowds, agents_table(crowds.runs)),
        ("Manifests", _MANIFEST, manifests, manifest_table(manifests.runs)),
    ):
        parts += [f"## {title}\n", f"{measured.where} {loads(measured.runs)}\n", text, table.markdown()]
    return "\n".join([*parts, *paper(crowds.runs, manifests.runs, taken.runs, restores.runs)])


PAGE = Page("EXECUTORS", _render)


def _warm(run: Cost) -> float:
    return run.warm_cpu * 1e6 / run.warm_records


def _late(run: Cost) -> float:
    return run.late_cpu * 1e6 / run.late_records


def _goals(runs: Sequence[Cost]) -> Iterator[tuple[str, bool]]:
    warm, late = paired(runs, REMOTE, LOCAL, _warm), paired(runs, REMOTE, LOCAL, _late)
    if warm is not None and late is not None:
        goal = f"CPU per record on executors at most {NEAR_LOCAL:g} times that of one process"
        yield f"{goal}: {warm:.2f}, and {late:.2f} in the later half", max(warm, late) <= NEAR_LOCAL


def cost_table(runs: Sequence[Cost]) -> Table:
    """Return CPU and batches of both sides."""

    def batches(share: float) -> Callable[[list[Cost]], str]:
        return lambda group: f"{quantile((each for run in group for each in run.batches_ms), share):.0f}"

    return Table.of(
        [group for side in (LOCAL, REMOTE) if (group := of_side(runs, side))],
        ("side", lambda group: group[0].side),
        ("runs", len),
        ("CPU s per million", lambda group: spread(map(_warm, group), ".2f")),
        ("later half", lambda group: spread(map(_late, group), ".2f")),
        ("CPU s in all", lambda group: mid((run.cpu for run in group), ".1f")),
        ("wall s", lambda group: mid((run.wall for run in group), ".1f")),
        ("batch p50 ms", batches(0.5)),
        ("p99 ms", batches(0.99)),
    )


def threads_table(runs: Sequence[Cost]) -> Table:
    """Return what the CPU of the later half was used for."""

    def used(what: str, side: str) -> float:
        per_million = [run.late_threads.get(what, 0.0) * 1e6 / run.late_records for run in of_side(runs, side)]
        return median(per_million or [0.0])

    return Table.of(
        sorted(
            {each for run in runs for each in run.late_threads},
            key=lambda what: -max(used(what, LOCAL), used(what, REMOTE)),
        ),
        ("CPU s per million", str),
        (LOCAL, lambda what: f"{used(what, LOCAL):.3f}"),
        (REMOTE, lambda what: f"{used(what, REMOTE):.3f}"),
        ("more", lambda what: f"{used(what, REMOTE) - used(what, LOCAL):+.3f}"),
    )


def checkpoints_table(runs: Iterable[Taken]) -> Table:
    """Return the cost of checkpoints by executors and partitions."""
    groups: dict[tuple[int, int], list[Taken]] = {}
    for run in runs:
        groups.setdefault((run.executors, run.partitions), []).append(run)
    return Table.of(
        groups.values(),
        ("executors × partitions", lambda group: f"{group[0].executors} × {group[0].partitions}"),
        ("seconds", lambda group: spread((each.seconds for each in group), ".2f")),
        ("PUT", lambda group: mid((each.puts for each in group), ".0f")),
        ("other requests", lambda group: mid((each.other_requests for each in group), ".0f")),
        ("put MB", lambda group: mid((each.put_bytes for each in group), ".2f", MB)),
        ("files", lambda group: mid((each.files for each in group), ".0f")),
        ("manifest kB", lambda group: mid((each.manifest_bytes for each in group), ".0f", 1e3)),
        ("load", lambda group: f"{group[0].load_before:.1f}"),
    )


def restore_table(runs: Iterable[Restored]) -> Table:
    """Return the restores."""
    return Table.of(
        runs,
        ("state on", lambda run: run.way),
        ("MB", lambda run: f"{run.state_bytes / MB:.0f}"),
        ("running s", lambda run: f"{run.running:.1f}"),
        ("first batch s", lambda run: f"{run.first_batch:.1f}"),
        ("GET", lambda run: run.gets),
        ("load", lambda run: f"{run.load_before:.1f}"),
    )


def agents_table(runs: Sequence[Crowd]) -> Table:
    """Return the cost of agents by their number."""
    return Table.of(
        [[run for run in runs if run.agents == count] for count in dict.fromkeys(run.agents for run in runs)],
        ("agents", lambda group: group[0].agents),
        ("requests", lambda group: group[0].requests),
        ("seconds", lambda group: spread((run.seconds for run in group), ".2f")),
        ("driver CPU s", lambda group: spread((run.cpu for run in group), ".2f")),
        ("ms a request", lambda group: mid((run.cpu / run.requests * 1e3 for run in group), ".1f")),
        ("failed connections", lambda group: group[-1].failures),
    )


def manifest_table(runs: Iterable[Manifested]) -> Table:
    """Return the cost of a manifest by the number of its files."""
    return Table.of(
        runs,
        ("files", lambda run: f"{run.files:,}"),
        ("MB", lambda run: f"{run.size / MB:.1f}"),
        ("bytes a file", lambda run: f"{run.size / run.files:.0f}"),
        ("write s", lambda run: f"{run.write_cpu:.2f}"),
        ("read s", lambda run: f"{run.read_cpu:.2f}"),
        ("in memory MB", lambda run: f"{run.memory / MB:.0f}"),
    )
