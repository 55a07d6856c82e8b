"""Writes SOAK.md: what a job had and used in the first and in the last quarter of its time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from bench.soak_model import Look, Soak
from bench.soak_trend import SETTLED, SHARE, Course, trend
from bench.tables import MB, Table

_MEGA, _KILO = "MB", "kB"


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of the report.

    Args:
        name: in a `Look`.
        title: in the table.
        unit: its unit.
        least: a rise up to this is none, in units.
    """

    name: str
    title: str
    unit: str = ""
    least: float = 0.0

    @property
    def scale(self) -> float:
        """The size of one unit."""
        return {_MEGA: MB, _KILO: 1000.0}.get(self.unit, 1.0)


FIGURES = (
    Figure("driver_rss", "driver in Python: resident memory", _MEGA, 1),
    Figure("jvm_rss", "JVM: resident memory", _MEGA, 5),
    Figure("heap_live", "JVM: heap behind a collection", _MEGA, 1),
    Figure("heap_live_objects", "JVM: objects behind a collection", "", 10_000),
    # A sawtooth between two collections.
    Figure("heap_used", "JVM: heap in use", _MEGA, 100),
    Figure("heap_committed", "JVM: heap committed", _MEGA, 5),
    Figure("metaspace", "JVM: metaspace in use", _MEGA, 0.5),
    Figure("native_committed", "JVM: all memory that it tracks", _MEGA, 5),
    Figure("worker_memory", "Python workers: memory of their own", _MEGA, 1),
    Figure("workers", "Python workers: processes", "", 1),
    Figure("driver_descriptors", "driver: open files", "", 2),
    Figure("jvm_descriptors", "JVM: open files", "", 10),
    Figure("driver_threads", "driver: threads", "", 2),
    Figure("jvm_threads", "JVM: threads", "", 5),
    Figure("work_files", "work directory: files", "", 20),
    Figure("work_bytes", "work directory", _MEGA, 0.5),
    Figure("store_files", "store: objects and directories", "", 10),
    Figure("store_bytes", "store", _MEGA, 0.1),
    Figure("temporary_files", "temporary files", "", 1),
    Figure("temporary_bytes", "temporary files", _MEGA, 0.1),
    Figure("input_files", "files of input that are kept", "", 5),
    Figure("log_bytes", "log", _KILO, 1),
)

_HEAD = """\
# A job over hours

<!-- Written by `make bench-soak`; change bench/soak_report.py. -->

Numbers as measured. `soak.json` has every look.

The job of `jobs/soak.yaml`: files of events, a Python worker, an aggregation over windows behind a watermark, files
exactly once, an incremental checkpoint to a local S3 server (versitygw) every five seconds, of which three are kept.
Input is taken away four minutes after it was written, published output after one minute. All figures are looked at
every half minute. The JVM collects its garbage for "behind a collection" every ten minutes. Its own account of its
native memory is on (`-XX:NativeMemoryTracking=summary`).
"""
_RULES = f"""\
A figure is flat if it rises by less than {SHARE:.0%} from the first quarter to the last one, or by less than matters.
It has settled if at most {SETTLED:.0%} of the rise fall on the last quarter, where a straight line has 33 %.
Otherwise it grows. The slope is the median of the slopes between any two looks behind the first quarter.
"""


def render(result: Soak) -> str:
    """Return SOAK.md."""
    loads = [look.load for look in result.looks if look.at >= 0]
    busy = f"Load average of the machine: median {median(loads):.1f}, most {max(loads):.1f}." if loads else ""
    parts = [
        _HEAD,
        f"{result.circumstances} {busy}\n",
        "\n".join(f"- {line}" for line in findings(result)) + "\n",
        *(["## Causes\n", "\n".join(f"- {note}" for note in result.notes) + "\n"] if result.notes else []),
        "## First and last quarter\n",
        _RULES,
        trend_table(result.looks).markdown() + "\n",
    ]
    return "\n".join(parts)


def trend_table(looks: Sequence[Look]) -> Table:
    """Return each figure's medians of the first and the last quarter, and its slope."""
    rows = []
    for figure in FIGURES:
        found = trend(looks, figure.name, figure.least * figure.scale)
        if found is None:
            continue
        digits = 1 if figure.unit else 0
        first, last, slope = (each / figure.scale for each in (found.first, found.last, found.slope))
        verdict = f"**{found.course}**" if found.course is Course.GROWS else str(found.course)
        title = f"{figure.title}, {figure.unit}" if figure.unit else figure.title
        rows.append((title, f"{first:,.{digits}f}", f"{last:,.{digits}f}", f"{slope:+,.{digits + 1}f}", verdict))
    return Table(("figure", "first quarter", "last quarter", "slope per hour", "verdict"), tuple(rows))


def findings(result: Soak) -> Iterator[str]:
    """Yield in sentences how the job went and which figures grow."""
    yield (
        f"{result.minutes:.0f} minutes behind {result.warm_up_minutes:.0f} to warm up,"
        f" {result.cpu_share:.2f} processors on average; {result.checkpoints:,} checkpoints completed,"
        f" {result.failed_checkpoints} failed, {result.restarts} restarts"
    )
    yield f"{result.rows_in:,} rows went in, {result.rows_out:,} came out; the last minute is not counted"
    growing = [
        figure.title
        for figure in FIGURES
        if (found := trend(result.looks, figure.name, figure.least * figure.scale)) and found.course is Course.GROWS
    ]
    yield f"grows: {', '.join(growing)}" if growing else "nothing grows"


def said(look: Look) -> str:
    """Return a look in a line."""
    known = {figure.name: figure for figure in FIGURES}
    short = (
        "driver_rss",
        "jvm_rss",
        "heap_used",
        "metaspace",
        "worker_memory",
        "work_bytes",
        "store_bytes",
        "log_bytes",
    )
    sizes = (f"{name} {look.figures[name] / known[name].scale:.1f}" for name in short if name in look.figures)
    counts = ("driver_descriptors", "jvm_descriptors", "jvm_threads", "work_files", "store_files", "temporary_files")
    numbers = (f"{name} {look.figures[name]:.0f}" for name in counts if name in look.figures)
    return f"{look.at / 60:.1f} min, load {look.load:.1f}: {', '.join([*sizes, *numbers])}"
