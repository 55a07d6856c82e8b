"""Writes HOSTILE.md: a job's figures with hostile clients and without, in turns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from bench.hostile_model import DECOY, HOSTILE, QUIET, Hostile, Phase
from bench.summary import quantile
from bench.tables import Table, goal_list

NOISE = 1.05
"""Medians whose ratio is at most this count as equal, even if the quiet phases vary less."""
JUDGED = 1.25
"""Quiet phases that differ by more than this leave nothing to compare with."""
ANSWER_MS = 5000.0
"""99 of 100 answers to a caller with the token have to come within this."""

_HEAD = """\
# Hostile clients

<!-- Written by `make bench-hostile`; change bench/hostile_report.py. -->

Numbers as measured. `hostile.json` has every batch, checkpoint and answer.

The job of `jobs/soak.yaml` with a file of 2,000 events every second and a checkpoint every two seconds. Over loopback,
{clients} hostile clients without a token are connected or try to be, half of them to the control API, half to the port
of the metrics. They send nothing, heads and bodies that arrive byte by byte or never end, 10 MB of body, zeros, TLS,
wrong tokens, 50 requests at once, scrapes and probes without a pause, and some read no answer. A client that is
disconnected comes again at once.

The clients run on the same machine, as one process of the lowest priority, so some of the processor time is theirs. To
tell that apart, phases take turns in threes: quiet ones, ones with a decoy (the clients attack the same servers in
another process, without a job), and hostile ones.

Four times a second a client with the token asks for `GET /v1/job` over a connection that it keeps and over a new one,
and then for `/healthz` at the port of the metrics, as a node does. Batches are those that these answers speak of.
"""


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure of which a phase has many values."""

    title: str
    values: Callable[[Phase], Sequence[float]]


BATCHES = Measure("batch, ms", lambda phase: phase.batches)
CHECKPOINTS = Measure("checkpoint, ms", lambda phase: phase.checkpoints)
KEPT = Measure("answer over a connection that is kept, ms", lambda phase: phase.kept)
FRESH = Measure("answer over a new connection, ms", lambda phase: phase.fresh)
PROBES = Measure("answer to a probe, ms", lambda phase: phase.probes)
MEASURES = (BATCHES, CHECKPOINTS, KEPT, FRESH, PROBES)
_KINDS = (QUIET, DECOY, HOSTILE)
_PROCESSORS: dict[str, Callable[[Phase], float]] = {
    "driver in Python, processors": lambda phase: phase.driver_cpu / phase.seconds,
    "JVM and Python workers, processors": lambda phase: phase.jvm_cpu / phase.seconds,
    "hostile clients, processors": lambda phase: phase.clients_cpu / phase.seconds,
    "driver: open files, at most": lambda phase: phase.descriptors,
    "load average": lambda phase: phase.load,
}


def render(result: Hostile) -> str:
    """Return HOSTILE.md."""
    phases = result.phases
    quiet, hostile = _of(phases, QUIET), _of(phases, HOSTILE)
    seconds = sum(phase.seconds for phase in hostile)
    length = f"{len(hostile)} hostile phases, {seconds / 60:.0f} minutes in all, between {len(quiet)} quiet ones."
    parts = [
        _HEAD.format(clients=result.clients),
        f"{result.circumstances} {length} {busy(result)}\n",
        goal_list(goals(phases)),
        "\n".join(f"- {line}" for line in findings(phases)) + "\n",
        "## Durations\n",
        "All values of all phases of a kind; in brackets, least and most of the phases' own medians.\n",
        comparison_table(phases).markdown() + "\n",
        "## The machine\n",
        "Medians of the phases.\n",
        machine_table(phases).markdown() + "\n",
        "## Connections\n",
        connections_table(phases).markdown() + "\n",
    ]
    return "\n".join(parts)


def busy(result: Hostile) -> str:
    """Return how busy the machine was, and how far the job was kept apart from that."""
    loads = [phase.load for phase in result.phases]
    said = f"Load average of the machine: median {median(loads):.1f}, most {max(loads):.1f}."
    if result.niceness >= 0:
        return said
    return f"{said} Most of it was other work: the job and those that ask it had a niceness of {result.niceness}."


def comparison_table(phases: Sequence[Phase]) -> Table:
    """Return median, 95th and 99th percentile of everything, quiet and hostile."""
    head = ("figure", "phases", "n", "median", "of the phases", "p95", "p99", "most")
    rows = []
    for measure in MEASURES:
        for kind in _KINDS:
            values = _values(phases, kind, measure)
            if not values:
                continue
            medians = _medians(phases, kind, measure)
            rows.append(
                (
                    measure.title,
                    kind,
                    f"{len(values):,}",
                    f"{median(values):,.0f}",
                    f"{min(medians):,.0f}–{max(medians):,.0f}",
                    f"{quantile(values, 0.95):,.0f}",
                    f"{quantile(values, 0.99):,.0f}",
                    f"{max(values):,.0f}",
                )
            )
    return Table(head, tuple(rows))


def machine_table(phases: Sequence[Phase]) -> Table:
    """Return what the processes used, quiet and hostile."""
    rows = [
        (title, *(f"{median(map(figure, of_kind)):.2f}" if (of_kind := _of(phases, kind)) else "–" for kind in _KINDS))
        for title, figure in _PROCESSORS.items()
    ]
    return Table(("", *_KINDS), tuple(rows))


def connections_table(phases: Sequence[Phase]) -> Table:
    """Return how many connections of each kind were made to the job."""
    made: Counter[str] = Counter()
    for phase in _of(phases, HOSTILE):
        made.update(phase.connections)
    return Table(("clients", "connections"), tuple((name, f"{count:,}") for name, count in made.most_common()))


def ratio(phases: Sequence[Phase], measure: Measure, share: float = 0.5, than: str = QUIET) -> float | None:
    """Return the quantile of the hostile phases as a multiple of that of others; None without values."""
    ours, others = _values(phases, HOSTILE, measure), _values(phases, than, measure)
    if not ours or not others or not quantile(others, share):
        return None
    return quantile(ours, share) / quantile(others, share)


def beside_neighbours(phases: Sequence[Phase], measure: Measure) -> float | None:
    """Return the median over hostile phases of their own median, as a multiple of the quiet phases around them."""
    quiet, hostile = _by_turn(phases, QUIET, measure), _by_turn(phases, HOSTILE, measure)
    ratios = []
    for turn, ours in hostile.items():
        around = [quiet[each] for each in (turn, turn + 1) if each in quiet]
        if around:
            ratios.append(ours / fmean(around))
    return median(ratios) if ratios else None


def noise(phases: Sequence[Phase], measure: Measure) -> float:
    """Return by how much quiet phases that follow each other differ, as a multiple: so much is chance."""
    quiet = _by_turn(phases, QUIET, measure)
    pairs = [(quiet[turn], quiet[turn + 1]) for turn in quiet if turn + 1 in quiet]
    return max(NOISE, median(max(pair) / min(pair) for pair in pairs)) if pairs else NOISE


def goals(phases: Sequence[Phase]) -> Iterator[tuple[str, bool]]:
    """Yield each goal with what was measured, and whether it was reached."""
    for measure, what in ((BATCHES, "batches"), (CHECKPOINTS, "checkpoints")):
        times, chance = beside_neighbours(phases, measure), noise(phases, measure)
        if times is not None and chance <= JUDGED:
            measured = f"{times:.2f} times the quiet phases around (which differ by {chance:.2f} times)"
            yield f"{what} take as long as without hostile clients: {measured}", times <= chance
    answers = [value for measure in (KEPT, FRESH, PROBES) for value in _values(phases, HOSTILE, measure)]
    unanswered = sum(phase.unanswered for phase in phases)
    if answers:
        late = quantile(answers, 0.99)
        measured = f"99 of 100 times within {late:,.0f} ms, {unanswered} times not at all"
        yield f"callers with the token and probes are answered: {measured}", late <= ANSWER_MS and not unanswered


def findings(phases: Sequence[Phase]) -> Iterator[str]:
    """Yield in sentences what hostile clients changed."""
    for measure in (BATCHES, CHECKPOINTS):
        times, chance = beside_neighbours(phases, measure), noise(phases, measure)
        if times is not None and chance > JUDGED:
            told = f"{measure.title}: {times:.2f} times the quiet phases around, which differ by {chance:.2f} times"
            yield f"{told} from one to the next: the machine was too busy to tell"
    for measure in MEASURES:
        times, late = ratio(phases, measure), ratio(phases, measure, 0.95)
        if times is not None and late is not None:
            beside = ratio(phases, measure, than=DECOY)
            against = f" ({beside:.2f} times with a decoy)" if beside is not None else ""
            yield f"{measure.title}: {times:.2f} times the quiet median{against}, {late:.2f} times the 95th percentile"


def said(phase: Phase) -> str:
    """Return a phase in a line."""
    figures = (
        f"{measure.title} {median(values):.0f}/{quantile(values, 0.95):.0f}"
        for measure in MEASURES
        if (values := measure.values(phase))
    )
    return (
        f"{phase.kind} {phase.turn}: {', '.join(figures)}; load {phase.load:.1f}, driver {phase.driver_cpu:.1f} s,"
        f" JVM {phase.jvm_cpu:.1f} s, clients {phase.clients_cpu:.1f} s of {phase.seconds:.0f};"
        f" {sum(phase.connections.values()):,} connections, {phase.descriptors} descriptors,"
        f" {phase.unanswered} unanswered"
    )


def _of(phases: Sequence[Phase], kind: str) -> list[Phase]:
    return [phase for phase in phases if phase.kind == kind]


def _values(phases: Sequence[Phase], kind: str, measure: Measure) -> list[float]:
    return [value for phase in _of(phases, kind) for value in measure.values(phase)]


def _by_turn(phases: Sequence[Phase], kind: str, measure: Measure) -> dict[int, float]:
    return {phase.turn: median(values) for phase in _of(phases, kind) if (values := measure.values(phase))}


def _medians(phases: Sequence[Phase], kind: str, measure: Measure) -> list[float]:
    return [median(values) for phase in _of(phases, kind) if (values := measure.values(phase))]
