"""Writes EXECUTORS.md: what executors cost, and what they would cost if there were many, as it was measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import median

from bench.executors.cost import LOCAL, REMOTE
from bench.executors.paper import paper
from bench.executors.results import Checkpoints, Cost, Crowd, Executors, Lost, Manifested, Part, Restored, Start
from bench.executors.texts import FLINK_PHASE_NAMES, FLINK_PHASES, PHASE_NAMES, PHASES, TEXTS, THREADS
from bench.summary import loads, quantile, spread
from bench.tables import MB, Table, goal_list

NEAR_LOCAL = 1.10
"""Most CPU per record on executors, as a multiple of one process with as many slots."""

_HEAD = """\
# The cost of executors

<!-- Written by `make bench-executors`; change bench/executors/report.py. -->

Numbers as measured, on one machine: ratios within a part can be compared, seconds of different parts cannot.
`executors.json` has every run. The S3 server is versitygw on the same machine.
"""


def render(results: Executors) -> str:
    """Return EXECUTORS.md."""
    parts = [_HEAD]
    made = tables(results)
    for name, (title, text) in TEXTS.items():
        part: Part | None = getattr(results, name)
        if part is None:
            continue
        runs = part.runs  # type: ignore[attr-defined]
        parts += [
            f"## {title}\n",
            f"{part.circumstances} {loads(runs, 'run')}\n",
            text + "\n",
            made[name].markdown() + "\n",
        ]
        if name == "cost":
            parts += _cost_parts(runs)
        if name == "loss":
            parts += _loss_parts(runs, PHASES, PHASE_NAMES)
        if name == "flink":
            parts += _loss_parts(runs, FLINK_PHASES, FLINK_PHASE_NAMES)
    parts += paper(results)
    return "\n".join(parts)


def _cost_parts(runs: Sequence[Cost]) -> list[str]:
    """Return what belongs to the part `cost` besides its table: threads, and the goal."""
    known = [run for run in runs if run.late_threads]
    parts = [THREADS + "\n", threads_table(known).markdown() + "\n"] if known else []
    if (ratio := cost_ratio(runs)) is not None:
        goal = f"CPU per record on executors at most {NEAR_LOCAL:g} times that of one process: {ratio:.2f}"
        late = late_ratio(runs)
        more = "" if late is None else f", and {late:.2f} in the later half"
        parts.append(goal_list([(goal + more, max(ratio, late or 0.0) <= NEAR_LOCAL)]))
    return parts


def _loss_parts(runs: Sequence[Lost], text: str, names: Sequence[str]) -> list[str]:
    """Return the steps of losses, if they were measured."""
    times = [[*run.phases, run.first] for run in runs if run.phases]
    if not times:
        return []
    steps = [[later - before for before, later in pairwise([0.0, *each])] for each in times]
    rows = (("seconds", *(spread(each, ".1f") for each in zip(*steps, strict=True))),)
    return [text + "\n", Table(("step", *names), rows).markdown() + "\n"]


def tables(results: Executors) -> dict[str, Table]:
    """Return the table of each part that was measured."""
    found = {}
    if results.cost:
        found["cost"] = cost_table(results.cost.runs)
    if results.checkpoints:
        found["checkpoints"] = checkpoints_table(results.checkpoints.runs)
    if results.restore:
        found["restore"] = restore_table(results.restore.runs)
    if results.loss:
        found["loss"] = loss_table(results.loss.runs)
    if results.flink:
        found["flink"] = loss_table(results.flink.runs)
    if results.start:
        found["start"] = start_table(results.start.runs)
    if results.agents:
        found["agents"] = agents_table(results.agents.runs)
    if results.manifest:
        found["manifest"] = manifest_table(results.manifest.runs)
    return found


def cost_ratio(runs: Sequence[Cost]) -> float | None:
    """Return the median over the rounds of the CPU per record on executors, by that of one process."""
    return _ratio(runs, lambda run: run.warm_cpu / run.warm_records)


def late_ratio(runs: Sequence[Cost]) -> float | None:
    """Return the same of the later half of the batches."""
    return _ratio([run for run in runs if run.late_cpu is not None], _late_cpu)


def _late_cpu(run: Cost) -> float:
    return (run.late_cpu or 0.0) / run.late_records


def _ratio(runs: Sequence[Cost], of: Callable[[Cost], float]) -> float | None:
    by = {(run.round, run.side): of(run) for run in runs}
    ratios = [by[number, REMOTE] / by[number, LOCAL] for number, side in by if side == LOCAL and (number, REMOTE) in by]
    return median(ratios) if ratios else None


def _per_million(run: Cost, what: str) -> float:
    return run.late_threads.get(what, 0.0) * 1e6 / run.late_records


def threads_table(runs: Sequence[Cost]) -> Table:
    """Return what the CPU of the later half was used for."""
    sides = (LOCAL, REMOTE)
    medians = {}
    for what in {each for run in runs for each in run.late_threads}:
        used = {side: [_per_million(run, what) for run in runs if run.side == side] for side in sides}
        medians[what] = [median(used[side] or [0.0]) for side in sides]
    rows = [
        (what, *(f"{each:.3f}" for each in values), f"{values[1] - values[0]:+.3f}")
        for what, values in sorted(medians.items(), key=lambda each: -max(each[1]))
    ]
    return Table(("CPU s per million", *sides, "more"), tuple(rows))


def cost_table(runs: Sequence[Cost]) -> Table:
    """Return CPU and batches of both sides."""
    rows = []
    for side in (LOCAL, REMOTE):
        mine = [run for run in runs if run.side == side]
        if mine:
            batches = [each for run in mine for each in run.batches_ms]
            rows.append(
                (
                    side,
                    str(len(mine)),
                    spread([run.warm_cpu * 1e6 / run.warm_records for run in mine], ".2f"),
                    spread([_late_cpu(run) * 1e6 for run in mine], ".2f")
                    if all(run.late_records for run in mine)
                    else "–",
                    f"{median(run.cpu for run in mine):.1f}",
                    f"{median(run.wall for run in mine):.1f}",
                    f"{quantile(batches, 0.5):.0f}",
                    f"{quantile(batches, 0.99):.0f}",
                )
            )
    head = ("side", "runs", "CPU s per million", "later half", "CPU s in all", "wall s", "batch p50 ms", "p99 ms")
    return Table(head, tuple(rows))


def checkpoints_table(runs: Sequence[Checkpoints]) -> Table:
    """Return the cost of checkpoints by executors and partitions."""
    rows = []
    for run in runs:
        puts = [each.requests.get("PutObject", 0) for each in run.samples]
        others = [sum(each.requests.values()) - put for each, put in zip(run.samples, puts, strict=True)]
        rows.append(
            (
                f"{run.executors} × {run.partitions}",
                spread([each.seconds for each in run.samples], ".2f"),
                f"{median(puts):.0f}",
                f"{median(others):.0f}",
                f"{median(each.put_bytes for each in run.samples) / MB:.2f}",
                f"{median(each.files for each in run.samples):.0f}",
                f"{median(each.manifest_bytes for each in run.samples) / 1e3:.0f}",
                f"{run.load_before:.1f}",
            )
        )
    head = ("executors × partitions", "seconds", "PUT", "other requests", "put MB", "files", "manifest kB", "load")
    return Table(head, tuple(rows))


def restore_table(runs: Sequence[Restored]) -> Table:
    """Return the restores."""
    rows = [
        (
            run.way,
            f"{run.state_bytes / MB:.0f}",
            f"{run.running:.1f}",
            f"{run.first_batch:.1f}",
            str(run.gets),
            f"{run.load_before:.1f}",
        )
        for run in runs
    ]
    return Table(("state on", "MB", "running s", "first batch s", "GET", "load"), tuple(rows))


def loss_table(runs: Sequence[Lost]) -> Table:
    """Return the seconds from SIGKILL."""
    figures: tuple[Callable[[Lost], float], ...] = (
        lambda run: run.first,
        lambda run: run.beyond,
        lambda run: run.published,
    )
    row = (str(len(runs)), *(spread([of(run) for run in runs], ".1f") for of in figures))
    return Table(("kills", "first new output", "newer than all before", "published"), (row,))


def start_table(runs: Sequence[Start]) -> Table:
    """Return the starts of executors."""
    rows = []
    for archive in (True, False):
        mine = [run for run in runs if run.archive is archive]
        if mine:
            seconds, cpu = [run.seconds for run in mine], [run.cpu for run in mine]
            rows.append(("yes" if archive else "no", str(len(mine)), spread(seconds, ".1f"), spread(cpu, ".1f")))
    return Table(("archive", "starts", "seconds", "CPU s"), tuple(rows))


def agents_table(runs: Sequence[Crowd]) -> Table:
    """Return the cost of agents by their number."""
    rows = []
    for count in dict.fromkeys(run.agents for run in runs):
        mine = [run for run in runs if run.agents == count]
        rows.append(
            (
                str(count),
                str(mine[0].requests),
                spread([run.seconds for run in mine], ".2f"),
                spread([run.cpu for run in mine], ".2f"),
                f"{median(run.cpu / run.requests for run in mine) * 1e3:.1f}",
                str(mine[-1].failures),
            )
        )
    return Table(("agents", "requests", "seconds", "driver CPU s", "ms a request", "failed connections"), tuple(rows))


def manifest_table(runs: Sequence[Manifested]) -> Table:
    """Return the cost of a manifest by the number of its files."""
    rows = [
        (
            f"{run.files:,}",
            f"{run.size / MB:.1f}",
            f"{run.size / run.files:.0f}",
            f"{run.write_cpu:.2f}",
            f"{run.read_cpu:.2f}",
            f"{run.memory / MB:.0f}",
        )
        for run in runs
    ]
    return Table(("files", "MB", "bytes a file", "write s", "read s", "in memory MB"), tuple(rows))
