"""Writes AUTOSCALER.md: the outcomes as simulated, the goals beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import mean

from bench.autoscaler.algorithms import (
    ALGORITHMS,
    FLINK,
    FLINK_EXAMPLE,
    FLINK_TRACKED,
    OURS_IN_PLACE,
    OURS_RESTART,
)
from bench.autoscaler.traces import CATCH_UP, NAMES, SKEW, UNREACHABLE
from bench.results import Records, Row, head
from bench.tables import Table, goal_list

MOST_MOVES = 12
MOST_OVER = {OURS_RESTART: 110.0, OURS_IN_PLACE: 70.0}
_TEXT = """\
Ten traces of a day, each with {seeds} seeds ({first} to {last}). The decision was tuned on seeds 1 to 6 only. Every
algorithm runs the same job. A slot processes 10,000 records/s in the largest batches, p slots p^0.95 times as many, at
most 60. A batch costs 0.35 s beside its rows and lasts at most 5 s; its duration varies by 10 %, correlated over half a
minute. A restart takes 17 s (60 s for Flink where the table says so), varies by 12 %, and reads the records since the
last checkpoint again (one every 10 s). A change in place takes 1 s.

streamjob's decision (`streamjob.autoscaling.decide`) sees only the counters that a job reports: records, batches and
their durations as of the last whole batch, lag, position. It does not see the duration of restarts, the cost of batches
or the arrival rate. Flink's algorithm and the specified rules see the true busy share and lag at each tick, which is
more than a real job reports. Flink's algorithm is that of flink-kubernetes-operator 6e9caeb4 on one vertex. In the
world of the specification's simulator it gives the published numbers exactly.

Lag is unread records divided by the records that arrive in a second. "Late" are minutes a day with a lag above 60 s.
"Over" are slot-seconds beyond records / 10,000. A job that always keeps the target utilization of 75 % has about 50 %.
"""
_SUMMARY = """\
Means over {traces} traces and all seeds, and the worst lag of all. In brackets the numbers of the specification's own
simulator: there, batches have no fixed cost and no noise, restarts take exactly 20 or 60 s, and nothing is read again.
"""
_UNREACHABLE = f"""\
On `{CATCH_UP}` the job begins with an hour of backlog, and on `{SKEW}` nothing above 7 slots helps: nobody can avoid
late minutes there, so they are not part of the means.
"""


class Trial(Row):
    """The days of one algorithm on one trace, each list by seed.

    `undone_after` counts the moves up to the first that was undone because more slots did not help; 0 without one.
    """

    algorithm: str
    trace: str
    moves: tuple[int, ...]
    late: tuple[float, ...]
    worst_lag: tuple[float, ...]
    over: tuple[float, ...]
    undone_after: tuple[int, ...] = ()


class Constant(Row):
    """The fewest constant slots without a late minute on the bursty trace, and their over-provisioning, by seed.

    `cpu` are the CPU seconds of the whole simulation.
    """

    seeds: tuple[int, ...]
    slots: tuple[int, ...]
    over: tuple[float, ...]
    cpu: float


TRIALS = Records("autoscaler", Trial)
CONSTANT = Records("autoscaler-constant", Constant)


@dataclass(frozen=True, slots=True)
class Results:
    """All trials, and the constant slots."""

    trials: Sequence[Trial]
    constant: Constant

    def of(self, algorithm: str, trace: str) -> Trial:
        """Return one trial."""
        return next(each for each in self.trials if (each.algorithm, each.trace) == (algorithm, trace))

    def reachable(self, algorithm: str) -> list[Trial]:
        """Return the trials of an algorithm on the traces on which the limit of the lag can be kept."""
        return [each for each in self.trials if each.algorithm == algorithm and each.trace not in UNREACHABLE]

    def average(self, algorithm: str, figure: Callable[[Trial], tuple[float, ...]]) -> float:
        """Return the mean of a figure over these traces and all seeds."""
        return mean(mean(figure(each)) for each in self.reachable(algorithm))


def render() -> str:
    """Return AUTOSCALER.md."""
    measured, (constant,) = TRIALS.load(), CONSTANT.load().runs
    results = Results(measured.runs, constant)
    first, last = constant.seeds[0], constant.seeds[-1]
    numbers = "as simulated, misses included"
    parts = [
        head("Automatic scaling, simulated", "bench-autoscaler", "autoscaler/report.py", numbers),
        _TEXT.format(seeds=len(constant.seeds), first=first, last=last),
        f"{measured.where} {constant.cpu:.0f} s of one core.\n",
        "![Slots over a day](autoscaler.svg)\n",
        "## All algorithms\n",
        _SUMMARY.format(traces=len(NAMES) - len(UNREACHABLE)),
        summary_table(results).markdown(),
        "## Goals\n",
        goal_list(goals(results)),
        bursty(results),
        *(
            part
            for name in (OURS_RESTART, OURS_IN_PLACE)
            for part in (
                f"## {name}\n",
                "Means; in brackets the worst seed.\n",
                trace_table(results, name).markdown(),
            )
        ),
        _UNREACHABLE,
        "## Late minutes by trace\n",
        by_trace(results, _late).markdown(),
        "## Over-provisioning by trace, %\n",
        by_trace(results, _over).markdown(),
        "## Moves a day by trace\n",
        by_trace(results, _moves).markdown(),
    ]
    return "\n".join(parts)


def summary_table(results: Results) -> Table:
    """Return the means of all algorithms."""
    published = {name: each.published for name, each in ALGORITHMS.items()}
    return Table.of(
        ALGORITHMS,
        ("algorithm", str),
        ("moves/day", lambda name: f"{results.average(name, _moves):.1f} ({published[name][0]:g})"),
        ("late min/day", lambda name: f"{results.average(name, _late):.2f} ({published[name][1]:g})"),
        (
            "worst lag s",
            lambda name: f"{max(max(e.worst_lag) for e in results.reachable(name)):.0f} ({published[name][2]:g})",
        ),
        ("over %", lambda name: f"{results.average(name, _over):.0f} ({published[name][3]:g})"),
    )


def trace_table(results: Results, algorithm: str) -> Table:
    """Return one algorithm by trace."""
    return Table.of(
        [results.of(algorithm, name) for name in NAMES],
        ("trace", lambda trial: trial.trace),
        ("moves/day", lambda trial: f"{mean(trial.moves):.1f} ({max(trial.moves)})"),
        ("late min/day", lambda trial: f"{mean(trial.late):.2f} ({max(trial.late):.2f})"),
        ("days with late minutes", lambda trial: f"{sum(late > 0 for late in trial.late)} of {len(trial.late)}"),
        ("worst lag s", lambda trial: f"{max(trial.worst_lag):.0f}"),
        ("over %", lambda trial: f"{mean(trial.over):.0f} ({max(trial.over):.0f})"),
    )


def by_trace(results: Results, figure: Callable[[Trial], tuple[float, ...]]) -> Table:
    """Return the means of one figure of all algorithms by trace."""

    def of(algorithm: str) -> Callable[[str], str]:
        return lambda trace: f"{mean(figure(results.of(algorithm, trace))):.1f}"

    return Table.of(NAMES, ("trace", str), *((algorithm, of(algorithm)) for algorithm in ALGORITHMS))


def bursty(results: Results) -> str:
    """Return the bound that the bursty trace sets."""
    least, most = min(results.constant.slots), max(results.constant.slots)
    return (
        "\nOn `bursty`, the fewest constant slots without a late minute, chosen with knowledge of the whole day, "
        f"are {least} to {most} by seed, with {mean(results.constant.over):.0f} % over "
        f"({max(results.constant.over):.0f} % on the worst seed).\n"
    )


def goals(results: Results) -> Iterator[tuple[str, bool]]:
    """Yield each goal with the outcome, and whether it was reached."""
    for name in (OURS_RESTART, OURS_IN_PLACE):
        trials = results.reachable(name)
        moves, _, _, over = ALGORITHMS[name].published
        ours = (results.average(name, _moves), results.average(name, _late), results.average(name, _over))
        yield f"{name}: fewer moves than specified: {ours[0]:.1f} a day ({moves:g})", ours[0] <= moves
        yield f"{name}: less over-provisioning than specified: {ours[2]:.0f} % ({over:g} %)", ours[2] <= over
        days, bad = sum(len(each.late) for each in trials), sum(late > 0 for each in trials for late in each.late)
        where = ", ".join(f"{each.trace} ({sum(late > 0 for late in each.late)})" for each in trials if any(each.late))
        some = f", on {where}; {ours[1]:.2f} min a day on average" if bad else ""
        yield f"{name}: no late minute on any of {days} days: {bad} days have some{some}", bad == 0
        limit = MOST_OVER[name]
        beyond = [f"{each.trace} ({mean(each.over):.0f} %)" for each in trials if mean(each.over) > limit]
        yield f"{name}: at most {limit:g} % over on each trace" + _but(beyond), not beyond
        if name == OURS_RESTART:
            often = [f"{each.trace} ({max(each.moves)})" for each in trials if max(each.moves) > MOST_MOVES]
            yield f"{name}: at most {MOST_MOVES} moves on each day" + _but(often), not often
        undone = [each for each in results.of(name, SKEW).undone_after if each]
        found = len(undone) == len(results.constant.seeds) and max(undone) <= 3
        outcome = f"on {len(undone)} of {len(results.constant.seeds)} days, after {max(undone, default=1) - 1} at most"
        yield f"{name}: on `{SKEW}`, slots that do not help are undone after fewer than 3 moves: {outcome}", found
    for flink in (FLINK, FLINK_EXAMPLE, FLINK_TRACKED):
        theirs = (results.average(flink, _late), results.average(flink, _over))
        ours = (results.average(OURS_RESTART, _late), results.average(OURS_RESTART, _over), 0.0)
        late, over_both = (
            f"{ours[0]:.2f} late minutes a day ({theirs[0]:.2f})",
            f"{ours[1]:.0f} % over ({theirs[1]:.0f} %)",
        )
        better = ours[0] <= theirs[0] and ours[1] <= theirs[1]
        yield f"{OURS_RESTART}, against {flink}: {late}, {over_both}", better


def _but(exceptions: list[str]) -> str:
    return f", but {', '.join(exceptions)}" if exceptions else ""


def _moves(trial: Trial) -> tuple[float, ...]:
    return trial.moves


def _late(trial: Trial) -> tuple[float, ...]:
    return trial.late


def _over(trial: Trial) -> tuple[float, ...]:
    return trial.over
