"""Kills a job with SIGKILL, has another process continue it at once, and waits until readers see its output."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

from bench import compare, data, plain
from bench.jobs import failing
from bench.object_store import ObjectStore
from bench.processes import RunFailed, environment, kill_tree, locked, started, streamjob
from bench.results import Records, Row
from bench.running import JOBS, settings
from bench.tables import Table, goal_list, loads, of_side, spread
from pyarrow import ArrowInvalid, parquet

JOB = JOBS / "live.yaml"
FAILING_JOB = JOBS / "failing.yaml"
RECORDS_A_SECOND = 10_000
STANDBY = "s"
"""The side of ours with a process that stands by."""
WITHIN = "f"
"""The side of ours in which an operator fails, and the process lives on."""
_READY = b"is at hand"
"""Logged by a process that stands by when it has the newest checkpoint's files."""
_POLL_SECONDS = 0.03
_BATCHES_BEFORE_A_KILL = 3

NAMES = {
    **compare.NAMES,
    STANDBY: "streamjob, with a standby",
    WITHIN: "streamjob, a failure within the process",
}


class Recovery(Row):
    """Seconds from a SIGKILL: to the first output of the next process, to the first beyond what the killed one had
    written, and to the first that readers see. Checkpoints were `interval` seconds apart."""

    side: str
    round: int
    interval: float
    first: float
    beyond: float
    published: float
    load_before: float


RECOVERIES = Records("recovery", Recovery)
_GOALS: tuple[tuple[str, str, Callable[[Recovery], float], float, str], ...] = (
    ("d", "first new output", lambda run: run.first, 9.0, " (Flink's)"),
    ("d", "published", lambda run: run.published, 13.0, " (Flink's)"),
    (STANDBY, "first new output of a standby", lambda run: run.first, 4.0, ""),
    (WITHIN, "first new output after a failure within the process", lambda run: run.first, 1.5, ""),
)
"""Side, what it does, the figure, the most seconds of its median, and whose they are: Flink 2.3's on such a machine."""


@dataclass(frozen=True)
class Setting:
    """The settings that all kills share.

    Args:
        work: directories of the jobs are made below it.
        store: the S3 server.
        interval: seconds between checkpoints of ours.
        keys: different keys of the events.
        timeout: seconds for a job to get going.
        lock: held while a job is measured.
    """

    work: Path
    store: ObjectStore
    interval: float
    keys: int
    timeout: float
    lock: Path | None = None


@dataclass
class _Outputs:
    """The files of a sink, and the newest window in each, staged and visible ones apart; read once.

    Args:
        directory: the sink's path.
    """

    directory: Path
    staged: dict[str, float] = field(default_factory=dict)
    visible: dict[str, float] = field(default_factory=dict)

    def copy(self) -> _Outputs:
        """Return what is known now."""
        return _Outputs(self.directory, dict(self.staged), dict(self.visible))

    def look(self) -> None:
        """Take in new files."""
        # A directory that is published meanwhile goes away; the next look finds its files.
        with contextlib.suppress(FileNotFoundError):
            for file in self.directory.glob("_streamjob/staged/*/*/part-*.parquet"):
                _take_in(file, self.staged)
        for file in self.directory.glob("part-*.parquet"):
            _take_in(file, self.visible)


def _newest(files: Mapping[str, float]) -> float:
    """Return the newest window in some files, in seconds since 1970; minus infinity for none."""
    return max(files.values(), default=float("-inf"))


def _take_in(file: Path, known: dict[str, float]) -> None:
    if str(file) in known:
        return
    # Staged files are renamed when they are published; the next look finds them there.
    with contextlib.suppress(FileNotFoundError, ArrowInvalid):
        begins = parquet.read_table(file, columns=["begin"]).column("begin")
        known[str(file)] = max((each.timestamp() for each in begins.unique().to_pylist()), default=float("-inf"))


@contextlib.contextmanager
def _fed(directory: Path, keys: int) -> Iterator[None]:
    """Add a file a second to a directory, each a minute of event time later, while the block runs."""
    directory.mkdir(parents=True)
    ended = threading.Event()

    def feed() -> None:
        number = 0
        while not ended.wait(1.0):
            data.put(data.events(number, RECORDS_A_SECOND, keys, number), directory, f"{number:06}.parquet")
            number += 1

    thread = threading.Thread(target=feed, name="feed", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def recover(setting: Setting, kills: int) -> Iterator[Recovery]:
    """Kill plain Spark, ours, and ours with a process that stands by, and let ours fail, each as often as asked.

    Raises:
        RunFailed: a job did not get going again.
    """
    for side in ("a", "d", STANDBY, WITHIN):
        directory = setting.work / f"recovery-{side}"
        if side == STANDBY:
            kill = _takeovers(setting, directory, kills)
        elif side == WITHIN:
            kill = _failures(setting, directory, kills)
        else:
            kill = _kills(setting, side, directory, kills)
        with locked(setting.lock), _fed(directory / "input", setting.keys):
            yield from kill
        shutil.rmtree(directory)


def _kills(setting: Setting, side: str, directory: Path, kills: int) -> Iterator[Recovery]:
    chance = random.Random(1)
    outputs = _Outputs(directory / "output")
    command = _command(setting, side, directory)
    log = directory / "log.txt"
    killed_at = time.monotonic()
    before = _Outputs(outputs.directory)
    for number in range(kills + 1):
        load = os.getloadavg()[0]
        with started(command, log) as process:
            watch = _Watch(process, outputs.look, log, time.monotonic() + setting.timeout)
            has_first = partial(_has_more, outputs, len(before.staged))
            recovered = _recovered(setting, side, number - 1, watch, outputs, before, killed_at, load, has_first)
            if number > 0:
                yield recovered
            if number == kills:
                return
            watch.until(partial(_has_more, outputs, len(outputs.staged) + _BATCHES_BEFORE_A_KILL))
            # Anywhere between two checkpoints; plain Spark has one after each batch.
            watch.until(partial(_is_past, time.monotonic() + chance.uniform(0.0, setting.interval)))
            killed_at = time.monotonic()
            kill_tree(process)
        outputs.look()
        before = outputs.copy()


def _takeovers(setting: Setting, directory: Path, kills: int) -> Iterator[Recovery]:
    chance = random.Random(1)
    outputs = _Outputs(directory / "output")
    command = _command(setting, STANDBY, directory)
    with contextlib.ExitStack() as processes:
        log = directory / "log.txt"
        active = processes.enter_context(started(command, log))
        for number in range(kills):
            next_log = directory / f"log-{number}.txt"
            standby = processes.enter_context(started([*command, "--standby"], next_log))
            watch = _Watch(active, outputs.look, log, time.monotonic() + setting.timeout)
            watch.until(lambda log=next_log: _READY in log.read_bytes())  # type: ignore[misc]
            watch.until(partial(_has_more, outputs, len(outputs.staged) + _BATCHES_BEFORE_A_KILL))
            watch.until(partial(_is_past, time.monotonic() + chance.uniform(0.0, setting.interval)))
            load, killed_at = os.getloadavg()[0], time.monotonic()
            kill_tree(active)
            outputs.look()
            before = outputs.copy()
            active, log = standby, next_log
            watch = _Watch(active, outputs.look, log, time.monotonic() + setting.timeout)
            has_first = partial(_has_more, outputs, len(before.staged))
            yield _recovered(setting, STANDBY, number, watch, outputs, before, killed_at, load, has_first)


def _failures(setting: Setting, directory: Path, failures: int) -> Iterator[Recovery]:
    chance = random.Random(1)
    outputs, log, told = _Outputs(directory / "output"), directory / "log.txt", directory / "fail"
    with environment({failing.VARIABLE: str(told)}), started(_command(setting, WITHIN, directory), log) as process:
        for number in range(failures):
            watch = _Watch(process, outputs.look, log, time.monotonic() + setting.timeout)
            watch.until(partial(_has_more, outputs, len(outputs.staged) + _BATCHES_BEFORE_A_KILL))
            watch.until(partial(_is_past, time.monotonic() + chance.uniform(0.0, setting.interval)))
            load = os.getloadavg()[0]
            told.touch()
            failed_at = watch.until(lambda: not told.exists())
            before = outputs.copy()
            # Another task of the batch that fails may come to its end.
            has_first = partial(_has_epoch, outputs, _epochs(before))
            yield _recovered(setting, WITHIN, number, watch, outputs, before, failed_at, load, has_first)


def _recovered(
    setting: Setting,
    side: str,
    number: int,
    watch: _Watch,
    outputs: _Outputs,
    before: _Outputs,
    since: float,
    load: float,
    has_first: Callable[[], bool],
) -> Recovery:
    """Wait for new output, for output newer than before, and for readers; return the seconds since a moment."""
    first = watch.until(has_first)
    beyond = watch.until(partial(_is_newer, outputs.staged, _newest(before.staged)))
    # Readers of plain Spark's output see what was written; those of ours, what was published.
    published = beyond if side == "a" else watch.until(partial(_is_newer, outputs.visible, _newest(before.visible)))
    return Recovery(
        side=side,
        round=number,
        interval=setting.interval,
        first=first - since,
        beyond=beyond - since,
        published=published - since,
        load_before=load,
    )


def _has_epoch(outputs: _Outputs, known: set[Path]) -> bool:
    return not _epochs(outputs) <= known


def _epochs(outputs: _Outputs) -> set[Path]:
    return {Path(each).parent.parent for each in outputs.staged}


def _has_more(outputs: _Outputs, count: int) -> bool:
    """Return whether there are more staged files than this."""
    return len(outputs.staged) > count


def _is_newer(files: Mapping[str, float], window: float) -> bool:
    """Return whether some files have a newer window."""
    return _newest(files) > window


def _is_past(moment: float) -> bool:
    """Return whether a moment of the monotonic clock has passed."""
    return time.monotonic() >= moment


class _Watch:
    """Waits for the output of a process.

    Args:
        process: the process.
        look: takes in new output, before each look at a condition.
        log: of the process.
        deadline: on the monotonic clock.
    """

    def __init__(self, process: subprocess.Popen[bytes], look: Callable[[], None], log: Path, deadline: float) -> None:
        self._process = process
        self._look = look
        self._log = log
        self._deadline = deadline

    def until(self, condition: Callable[[], bool]) -> float:
        """Wait for a condition; return the time on the monotonic clock at which it held."""
        while True:
            self._look()
            if condition():
                return time.monotonic()
            if self._process.poll() is not None or time.monotonic() > self._deadline:
                raise RunFailed.told_by(self._log, "the job got no further")
            time.sleep(_POLL_SECONDS)


def _command(setting: Setting, side: str, directory: Path) -> list[str]:
    source, sink = directory / "input", directory / "output"
    job = FAILING_JOB if side == WITHIN else JOB
    changed = settings({"sources.events.options.path": source, "sinks.report.options.path": sink})
    if side != "a":
        location = f"s3://{setting.store.server.bucket}/recovery-{side}"
        places = ["--location", location, "--workdir", str(directory / "work")]
        return streamjob("run", str(job), *places, *changed, "--set", f"checkpointing.interval={setting.interval:g}s")
    places = ["--checkpoint", f"file://{directory}/checkpoint", "--scratch", str(directory)]
    return [sys.executable, "-m", "bench.plain", str(JOB), "--side", plain.DEFAULTS, *places, *changed]


_TEXT = """\
Seconds from SIGKILL of the whole process tree; the job is started again at once, or continued by a process that stands
by (s), once that is ready. In (f) an operator in Python fails once, and the process restarts the job. Windows over a
file of {records:,} records a second, which keep arriving in the meantime; streamjob takes checkpoints every
{interval:g} s to the S3 server, plain Spark (a) with its checkpoint on the local disk. "First new output" is
the first batch that the new process stages, "beyond" the first with newer windows than any that the killed process had
staged, "published" the first of these that readers of the sink see: at once in plain Spark, after the next checkpoint
in streamjob. Minimum and maximum are in brackets.
"""


def section() -> Iterator[str]:
    """Yield the section on the time to recover."""
    measured = RECOVERIES.load()
    runs = measured.runs
    yield f"## Time to recover\n\n{_TEXT.format(records=RECORDS_A_SECOND, interval=runs[0].interval)}"
    yield f"{measured.where} {loads(runs)}\n\n{table(runs).markdown()}"
    yield goal_list(_goals(runs))


def table(runs: Sequence[Recovery]) -> Table:
    """Return the seconds from SIGKILL: median, and least to most."""
    return Table.of(
        dict.fromkeys(run.side for run in runs),
        ("side", lambda side: f"({side}) {NAMES[side]}"),
        ("kills", lambda side: len(of_side(runs, side))),
        ("first new output", lambda side: spread((run.first for run in of_side(runs, side)), ".1f")),
        ("beyond the killed one's", lambda side: spread((run.beyond for run in of_side(runs, side)), ".1f")),
        ("published", lambda side: spread((run.published for run in of_side(runs, side)), ".1f")),
    )


def _goals(runs: Sequence[Recovery]) -> Iterator[tuple[str, bool]]:
    for side, what, figure, most, whose in _GOALS:
        seconds = median(map(figure, of_side(runs, side)))
        yield f"{what} within {most:g} s{whose}: {seconds:.1f} s", seconds <= most
