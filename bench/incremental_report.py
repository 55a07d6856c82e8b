"""Writes INCREMENTAL.md: what incremental checkpoints cost as a job grows, as it was measured."""

from __future__ import annotations

from statistics import median

from bench.incremental_model import Aged, ByAge, BySize, Incremental, Sized
from bench.spark_files import PARTITIONS
from bench.summary import loads
from bench.tables import MB, Table

from streamjob_runtime.checkpointing.upload.repacking import FAN

_HEAD = """\
# The cost of an incremental checkpoint as the job grows

<!-- Written by `make bench-increments`; change bench/incremental_report.py. -->

Numbers as measured. `incremental.json` has every checkpoint.

The files of a Spark checkpoint are written by hand in Spark's formats: a file source that reads a file a batch, one
stateful operator of {partitions} partitions, and as many SSTs as the first column says, of 8 to 16 kB each, every
fortieth of 300 kB. The rest is the code of a job, with an S3 server on the same machine: hard links, upload, manifest
and log record, deletion of garbage (three checkpoints are retained), and a restore into an empty directory, which is
compared byte by byte.
"""

_SIZE = """\
Between two checkpoints there are ten batches, and the change is the same in every row: a changelog of 2 kB for each
batch and partition, and one RocksDB snapshot per partition with two SSTs that are new and two that are gone. The rows
differ in the unchanged part: the files, and the history of the source, which Spark rewrites every ten batches ("log
whole"). Changed, put and log are MB; manifest kB. Hold, upload and record are seconds; together they are the
checkpoint. Medians of {steps} checkpoints.

The archive in each RocksDB snapshot lists all SSTs, and the manifest lists all files: these two grow with the files,
and are in "changed" and "manifest". The other bytes and all requests follow the change; so do the seconds, except for a
hard link, a look-up and a line of the manifest for each file. A manifest is one request however large it is, and is
written, not read, while the job runs; {costs}.
"""

_RESTORE = """\
The same jobs, restored: from the claim to the last byte, {times}. Reads are GetObject requests, of which neighbours in
one object share one.
"""

_AGE = """\
The job with {files:,} files after {checkpoints} checkpoints, one each ten seconds of its life. A pack is an object that
small files share, and stays as long as one of them is needed. If packs are rewritten when {fan} of similar size have
accumulated, few are left; "put" includes the copied bytes. Seconds of a restore: {times}. On this machine a request
costs almost nothing; with 30 ms per request and eight at a time, each read would add 4 ms.
"""


def render(results: Incremental) -> str:
    """Return INCREMENTAL.md."""
    parts = [_HEAD.format(partitions=PARTITIONS)]
    if results.size is not None:
        jobs = results.size.jobs
        text = _SIZE.format(steps=len(jobs[0].steps), costs=_costs(jobs))
        parts += ["## By size\n", _measured(results.size), text, size_table(jobs).markdown() + "\n"]
        restored = _RESTORE.format(times=_times(jobs[0].restored.times))
        parts += ["## Restore\n", restored, restore_table(jobs).markdown() + "\n"]
    if results.age is not None:
        oldest = results.age.jobs[0]
        text = _AGE.format(
            files=oldest.files, checkpoints=oldest.checkpoints, fan=FAN, times=_times(oldest.restored.times)
        )
        parts += ["## By age\n", _measured(results.age), text, age_table(results.age.jobs).markdown() + "\n"]
    return "\n".join(parts)


def _measured(part: BySize | ByAge) -> str:
    return f"{part.circumstances} {loads(part.jobs, 'job')}\n"


def _times(times: int) -> str:
    return f"median of {times}" if times > 1 else "once"


def tables(results: Incremental) -> list[tuple[str, Table]]:
    """Return all tables with their titles."""
    found = []
    if results.size is not None:
        found += [("by size", size_table(results.size.jobs)), ("restore", restore_table(results.size.jobs))]
    if results.age is not None:
        found.append(("by age", age_table(results.age.jobs)))
    return found


def size_table(sized: tuple[Sized, ...]) -> Table:
    """Return what a checkpoint costs by the number of files and the length of the history."""
    head = (
        "shared files",
        "history",
        "changed",
        "put",
        "manifest",
        "log whole",
        "PUT",
        "other requests",
        "hold",
        "upload",
        "record",
        "CPU s",
    )
    rows = []
    for each in sized:
        steps = each.steps
        puts = [step.requests.get("PutObject", 0) for step in steps]
        others = [sum(step.requests.values()) - put for step, put in zip(steps, puts, strict=True)]
        rows.append(
            (
                f"{each.files:,}",
                _time(each.history),
                f"{median(step.changed_bytes for step in steps) / MB:.2f}",
                f"{median(step.put_bytes for step in steps) / MB:.2f}",
                f"{median(step.manifest_bytes for step in steps) / 1e3:.0f}",
                f"{each.whole_history_bytes / MB:.2f}",
                f"{median(puts):.0f}",
                f"{median(others):.0f}",
                f"{median(step.hold for step in steps):.3f}",
                f"{median(step.upload for step in steps):.3f}",
                f"{median(step.complete for step in steps):.3f}",
                f"{median(step.cpu for step in steps):.2f}",
            )
        )
    return Table(head, tuple(rows))


def restore_table(sized: tuple[Sized, ...]) -> Table:
    """Return what a restore costs."""
    head = ("shared files", "history", "MB", "objects", "of them packs", "reads", "lists", "resolve s", "download s")
    rows = []
    for each in sized:
        restored = each.restored
        rows.append(
            (
                f"{each.files:,}",
                _time(each.history),
                f"{restored.living_bytes / MB:.1f}",
                f"{restored.objects:,}",
                f"{restored.packs:,}",
                f"{restored.requests.get('GetObject', 0):,}",
                f"{restored.requests.get('ListObjectsV2', 0)}",
                f"{restored.resolve:.2f}",
                f"{restored.download:.2f}",
            )
        )
    return Table(head, tuple(rows))


def age_table(aged: tuple[Aged, ...]) -> Table:
    """Return what a job costs that has run for long, with packs that are rewritten and without."""
    head = (
        "packs",
        "objects",
        "of them packs",
        "reads",
        "needed MB",
        "kept MB",
        "restore s",
        "put MB",
        "checkpoints s",
        "CPU s",
    )
    rows = []
    for each in aged:
        restored = each.restored
        rows.append(
            (
                "rewritten" if each.repacking else "unchanged",
                f"{restored.objects:,}",
                f"{restored.packs:,}",
                f"{restored.requests.get('GetObject', 0):,}",
                f"{restored.living_bytes / MB:.1f}",
                f"{restored.stored_bytes / MB:.1f}",
                f"{restored.resolve + restored.download:.2f}",
                f"{each.put_bytes / MB:.0f}",
                f"{each.seconds:.0f}",
                f"{each.cpu:.0f}",
            )
        )
    return Table(head, tuple(rows))


def _costs(sized: tuple[Sized, ...]) -> str:
    most = max(sized, key=lambda each: (each.files, each.history))
    size = median(step.manifest_bytes for step in most.steps)
    return f"with {most.files:,} files it has {size / MB:.1f} MB, {size / most.files:.0f} bytes a file"


def _time(batches: int) -> str:
    return f"{batches // 60} min" if batches < 3600 else f"{batches // 3600} h"
