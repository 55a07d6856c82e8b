"""Writes BACKPRESSURE.md and its plot: the measurements next to the goals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import median

from bench.backpressure_model import Backlog, Backpressure, Kill, Sample
from bench.plot import Axis, draw
from bench.tables import MB, Table, goal_list

FLINK_MS = {(1, 4000): (2000, 15, 74), (5, 4000): (9900, 18, None)}
"""Flink 2.3 by record's ms and records in flight (0.5 MB): aligned, median unaligned, longest unaligned, in ms."""
_FLAT = 3.0
"""Times that the shortest and the longest median may differ by for the checkpoints to be called flat."""
_MODES = ("aligned", "switch", "unaligned")

_HEAD = """\
# Checkpoints under backpressure

<!-- Written by `make bench-backpressure`; change bench/backpressure_report.py. -->

Numbers as measured, misses included. `backpressure.json` has every checkpoint.

A Python operator (`mapInPandas`) that takes 1 ms per record, after a channel, in two task slots: 2000 records per
second. Its producer could read hundreds of times as many, so the channel is always full, and checkpoints are requested
when it is. Records are {record_bytes} bytes, checkpoints go to a local S3 server (versitygw). `capacityRecords` sets
the backlog, `maxBatchRecords: 1000` lets a batch take half a second: an aligned barrier cannot pass the batch in
progress, and a segment is one task's, so it has at most `maxBatchRecords` divided by the slots. A batch has an overhead
of about 0.2 s, for its plan and its commit: an aligned checkpoint also waits for the overhead of each batch on the way.

Durations are those of `GET /v1/checkpoints/<id>`, whose end is the last acknowledgement, as in Flink. "Held" ends when
every chain was cut and hard links hold its files: from then on the stream is independent of the checkpoint. "Upload" is
the time that a chain needs to upload its held files to the S3 server. "Logged" ends when the log names the checkpoint.
One checkpoint for warm-up does not count. Unaligned checkpoints right after an aligned one upload all in-flight data,
those after another unaligned one only new data.
"""


def render(results: Backpressure) -> str:
    """Return BACKPRESSURE.md."""
    parts = [
        _HEAD.format(record_bytes=results.record_bytes),
        f"The mode `switch` is `aligned` with `alignedCheckpointTimeout: {results.switch_after:g}s`.\n",
        f"{results.circumstances}\n",
        "![Duration of checkpoints by backlog](backpressure.svg)\n",
        "## Duration\n",
        "ms, medians; in brackets the longest.\n",
        duration_table(results.backlogs).markdown() + "\n",
        goal_list(goals(results)),
        "## Upload of in-flight data\n",
        _UPLOADS,
        upload_table(results.backlogs).markdown() + "\n",
    ]
    if results.kills:
        others = results.kill_circumstances
        at = [f"{others}\n"] if others not in (None, results.circumstances) else []
        parts += ["## Recovery\n", _KILLS, *at, kill_table(results.kills).markdown() + "\n"]
    return "\n".join(parts)


_UPLOADS = """\
Unaligned checkpoints that had to upload everything (right after an aligned one), and those that found a part in the
store: medians.
"""
_KILLS = """\
The job gets a bounded input, a checkpoint every second and a full channel. The whole process tree gets SIGKILL about
halfway, after a checkpoint of the mode; another process continues from the log and runs to the end. Then the output
that readers of the sink see is compared with the input.
"""


def duration_table(backlogs: Sequence[Backlog]) -> Table:
    """Return how long checkpoints took by backlog and mode."""
    head = ("backlog", "mode", "n", "total ms", "held ms", "upload ms", "logged ms", "start delay ms", "MB in flight")
    rows = []
    for backlog in backlogs:
        for mode in _MODES:
            samples = _of(backlog, mode)
            if not samples:
                continue
            rows.append(
                (
                    _name(backlog),
                    mode,
                    str(len(samples)),
                    _spread(samples, lambda each: each.total),
                    _spread(samples, lambda each: each.until_held),
                    _spread(samples, lambda each: each.upload),
                    _spread(samples, lambda each: each.completed),
                    _spread(samples, lambda each: each.start_delay),
                    f"{median(each.in_flight for each in samples) / MB:.2f}",
                )
            )
    return Table(head, tuple(rows))


def upload_table(backlogs: Sequence[Backlog]) -> Table:
    """Return what unaligned checkpoints uploaded, and how long that took."""
    head = ("backlog", "uploaded", "n", "MB in flight", "MB uploaded", "upload ms", "MB/s")
    rows = []
    for backlog in backlogs:
        unaligned = _of(backlog, "unaligned")
        whole = [each for each in unaligned if each.uploaded >= each.in_flight]
        for name, samples in (("all", whole), ("only new data", [each for each in unaligned if each not in whole])):
            if not samples:
                continue
            uploaded, upload = median(each.uploaded for each in samples), median(each.upload for each in samples)
            rows.append(
                (
                    _name(backlog),
                    name,
                    str(len(samples)),
                    f"{median(each.in_flight for each in samples) / MB:.2f}",
                    f"{uploaded / MB:.2f}",
                    f"{upload:.0f}",
                    f"{uploaded / MB / upload * 1000:.0f}" if upload else "–",
                )
            )
    return Table(head, tuple(rows))


def kill_table(kills: Sequence[Kill]) -> Table:
    """Return what became of the output of killed jobs."""
    head = ("mode", "records", "visible at the kill", "restored in flight, MB", "missing", "repeated", "output")
    rows = [
        (
            kill.mode,
            f"{kill.records:,}",
            f"{kill.visible_at_kill:,}",
            f"{kill.in_flight / MB:.2f}",
            str(kill.missing),
            str(kill.repeated),
            "equal" if kill.equal else "**differs**",
        )
        for kill in kills
    ]
    return Table(head, tuple(rows))


def goals(results: Backpressure) -> Iterator[tuple[str, bool]]:
    """Yield each goal with what was measured, and whether it was reached."""
    growing = _growing(results.backlogs)
    if len(growing) > 1:
        held = [median(each.until_held for each in _of(backlog, "unaligned")) for backlog in growing]
        first, last = growing[0], growing[-1]
        held_from_to = f"medians from {min(held):.0f} to {max(held):.0f} ms"
        yield (
            f"unaligned flat from {first.seconds:g} to {last.seconds:g} s of backlog, the upload apart: {held_from_to}",
            max(held) <= _FLAT * max(min(held), 1),
        )
        aligned = [median(each.total for each in _of(backlog, "aligned")) for backlog in growing]
        yield (
            f"aligned grows with the backlog: {aligned[0] / 1000:.1f} to {aligned[-1] / 1000:.1f} s",
            aligned[-1] > aligned[0],
        )
    for backlog in results.backlogs:
        flinks = FLINK_MS.get((backlog.record_ms, backlog.capacity))
        if flinks is None:
            continue
        aligned_ms, unaligned_ms, longest_ms = flinks
        what = _name(backlog)
        ours = median(each.total for each in _of(backlog, "aligned"))
        yield f"{what}: aligned {ours:.0f} ms (Flink {aligned_ms})", ours <= aligned_ms
        held = [each.until_held for each in _of(backlog, "unaligned")]
        yield (
            f"{what}: unaligned {median(held):.0f} ms without the upload (Flink {unaligned_ms})",
            median(held) <= unaligned_ms,
        )
        if longest_ms is not None:
            yield (
                f"{what}: unaligned at most {max(held)} ms without the upload (Flink {longest_ms})",
                max(held) <= longest_ms,
            )
    for kill in results.kills:
        yield f"equal output after recovery, {kill.mode}", kill.equal


def plot(backlogs: Sequence[Backlog]) -> str:
    """Return the durations by backlog as SVG."""
    growing = _growing(backlogs)
    lines: dict[str, list[tuple[float, float]]] = {}
    for mode in _MODES:
        lines[mode] = [(each.seconds, median(s.total for s in _of(each, mode)) / 1000) for each in growing]
    lines["… without upload"] = [
        (each.seconds, median(s.until_held for s in _of(each, "unaligned")) / 1000) for each in growing
    ]
    x, y = Axis("backlog, seconds of work", 0.8, 125.0), Axis("duration of a checkpoint, seconds", 0.003, 200.0)
    return draw("Checkpoints under backpressure (medians)", x, y, lines)


def _growing(backlogs: Sequence[Backlog]) -> list[Backlog]:
    """Return the backlogs that differ in nothing else."""
    return sorted((each for each in backlogs if each.record_ms == 1 and each.max_batch_records == 1000), key=_seconds)


def _seconds(backlog: Backlog) -> float:
    return backlog.seconds


def _of(backlog: Backlog, mode: str) -> list[Sample]:
    return [sample for sample in backlog.samples if sample.mode == mode]


def _spread(samples: Sequence[Sample], figure: Callable[[Sample], int]) -> str:
    values = [figure(each) for each in samples]
    return f"{median(values):.0f}" + (f" ({max(values)})" if len(values) > 1 else "")


def _name(backlog: Backlog) -> str:
    name = f"{backlog.seconds:g} s: {backlog.capacity:,} × {backlog.record_ms} ms"
    return name if backlog.max_batch_records == 1000 else f"{name}, default `maxBatchRecords`"
