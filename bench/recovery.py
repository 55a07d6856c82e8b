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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bench import data, plain
from bench.jobs import failing
from bench.model import Recovery
from bench.object_store import ObjectStore
from bench.processes import REPOSITORY, RunFailed, environment, kill_tree, locked, started, streamjob
from bench.running import settings
from pyarrow import ArrowInvalid, parquet

JOB = REPOSITORY / "bench" / "jobs" / "live.yaml"
FAILING_JOB = REPOSITORY / "bench" / "jobs" / "failing.yaml"
RECORDS_A_SECOND = 10_000
STANDBY = "s"
"""The side of ours with a process that stands by."""
WITHIN = "f"
"""The side of ours in which an operator fails, and the process lives on."""
_READY = b"is at hand"
"""Logged by a process that stands by when it has the newest checkpoint's files."""
_POLL_SECONDS = 0.03
BATCHES_BEFORE_A_KILL = 3


@dataclass(frozen=True)
class RecoverySetting:
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
class Outputs:
    """The files of a sink, and the newest window in each, staged and visible ones apart; read once.

    Args:
        directory: the sink's path.
    """

    directory: Path
    staged: dict[str, float] = field(default_factory=dict)
    visible: dict[str, float] = field(default_factory=dict)

    def copy(self) -> Outputs:
        """Return what is known now."""
        return Outputs(self.directory, dict(self.staged), dict(self.visible))

    def look(self) -> None:
        """Take in new files."""
        # A directory that is published meanwhile goes away; the next look finds its files.
        with contextlib.suppress(FileNotFoundError):
            for file in self.directory.glob("_streamjob/staged/*/*/part-*.parquet"):
                _take_in(file, self.staged)
        for file in self.directory.glob("part-*.parquet"):
            _take_in(file, self.visible)


def newest(files: Mapping[str, float]) -> float:
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
def fed(directory: Path, keys: int) -> Iterator[None]:
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


def recover(setting: RecoverySetting, kills: int, on_run: Callable[[Recovery], None]) -> list[Recovery]:
    """Kill plain Spark, ours, and ours with a process that stands by, and let ours fail, each as often as asked.

    Raises:
        RunFailed: a job did not get going again.
    """
    runs: list[Recovery] = []
    for side in ("a", "d", STANDBY, WITHIN):
        directory = setting.work / f"recovery-{side}"
        if side == STANDBY:
            kill = _takeovers(setting, directory, kills)
        elif side == WITHIN:
            kill = _failures(setting, directory, kills)
        else:
            kill = _kills(setting, side, directory, kills)
        with locked(setting.lock), fed(directory / "input", setting.keys):
            for run in kill:
                runs.append(run)
                on_run(run)
        shutil.rmtree(directory)
    return runs


def _kills(setting: RecoverySetting, side: str, directory: Path, kills: int) -> Iterator[Recovery]:
    chance = random.Random(1)
    outputs = Outputs(directory / "output")
    command = _command(setting, side, directory)
    log = directory / "log.txt"
    killed_at = time.monotonic()
    before = Outputs(outputs.directory)
    for number in range(kills + 1):
        load = os.getloadavg()[0]
        with started(command, log) as process:
            watch = Watch(process, outputs.look, log, time.monotonic() + setting.timeout)
            has_first = partial(has_more, outputs, len(before.staged))
            recovered = _recovered(side, number - 1, watch, outputs, before, killed_at, load, has_first)
            if number > 0:
                yield recovered
            if number == kills:
                return
            watch.until(partial(has_more, outputs, len(outputs.staged) + BATCHES_BEFORE_A_KILL))
            # Anywhere between two checkpoints; plain Spark has one after each batch.
            watch.until(partial(is_past, time.monotonic() + chance.uniform(0.0, setting.interval)))
            killed_at = time.monotonic()
            kill_tree(process)
        outputs.look()
        before = outputs.copy()


def _takeovers(setting: RecoverySetting, directory: Path, kills: int) -> Iterator[Recovery]:
    chance = random.Random(1)
    outputs = Outputs(directory / "output")
    command = _command(setting, STANDBY, directory)
    with contextlib.ExitStack() as processes:
        log = directory / "log.txt"
        active = processes.enter_context(started(command, log))
        for number in range(kills):
            next_log = directory / f"log-{number}.txt"
            standby = processes.enter_context(started([*command, "--standby"], next_log))
            watch = Watch(active, outputs.look, log, time.monotonic() + setting.timeout)
            watch.until(lambda log=next_log: _READY in log.read_bytes())  # type: ignore[misc]
            watch.until(partial(has_more, outputs, len(outputs.staged) + BATCHES_BEFORE_A_KILL))
            watch.until(partial(is_past, time.monotonic() + chance.uniform(0.0, setting.interval)))
            load, killed_at = os.getloadavg()[0], time.monotonic()
            kill_tree(active)
            outputs.look()
            before = outputs.copy()
            active, log = standby, next_log
            watch = Watch(active, outputs.look, log, time.monotonic() + setting.timeout)
            has_first = partial(has_more, outputs, len(before.staged))
            yield _recovered(STANDBY, number, watch, outputs, before, killed_at, load, has_first)


def _failures(setting: RecoverySetting, directory: Path, failures: int) -> Iterator[Recovery]:
    chance = random.Random(1)
    outputs, log, told = Outputs(directory / "output"), directory / "log.txt", directory / "fail"
    with environment({failing.VARIABLE: str(told)}), started(_command(setting, WITHIN, directory), log) as process:
        for number in range(failures):
            watch = Watch(process, outputs.look, log, time.monotonic() + setting.timeout)
            watch.until(partial(has_more, outputs, len(outputs.staged) + BATCHES_BEFORE_A_KILL))
            watch.until(partial(is_past, time.monotonic() + chance.uniform(0.0, setting.interval)))
            load = os.getloadavg()[0]
            told.touch()
            failed_at = watch.until(lambda: not told.exists())
            before = outputs.copy()
            # Another task of the batch that fails may come to its end.
            has_first = partial(_has_epoch, outputs, _epochs(before))
            yield _recovered(WITHIN, number, watch, outputs, before, failed_at, load, has_first)


def _recovered(
    side: str,
    number: int,
    watch: Watch,
    outputs: Outputs,
    before: Outputs,
    since: float,
    load: float,
    has_first: Callable[[], bool],
) -> Recovery:
    """Wait for new output, for output newer than before, and for readers; return the seconds since a moment."""
    first = watch.until(has_first)
    beyond = watch.until(partial(is_newer, outputs.staged, newest(before.staged)))
    # Readers of plain Spark's output see what was written; those of ours, what was published.
    published = beyond if side == "a" else watch.until(partial(is_newer, outputs.visible, newest(before.visible)))
    return Recovery(
        side=side,
        round=number,
        first=first - since,
        beyond=beyond - since,
        published=published - since,
        load_before=load,
        load_after=os.getloadavg()[0],
    )


def _has_epoch(outputs: Outputs, known: set[Path]) -> bool:
    return not _epochs(outputs) <= known


def _epochs(outputs: Outputs) -> set[Path]:
    return {Path(each).parent.parent for each in outputs.staged}


def has_more(outputs: Outputs, count: int) -> bool:
    """Return whether there are more staged files than this."""
    return len(outputs.staged) > count


def is_newer(files: Mapping[str, float], window: float) -> bool:
    """Return whether some files have a newer window."""
    return newest(files) > window


def is_past(moment: float) -> bool:
    """Return whether a moment of the monotonic clock has passed."""
    return time.monotonic() >= moment


def says(log: Path, since: int, text: bytes) -> bool:
    """Return whether a process has logged a text since its log had a size."""
    with log.open("rb") as file:
        file.seek(since)
        return text in file.read()


class Watch:
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


def _command(setting: RecoverySetting, side: str, directory: Path) -> list[str]:
    source, sink = directory / "input", directory / "output"
    job = FAILING_JOB if side == WITHIN else JOB
    changed = settings({"sources.events.options.path": source, "sinks.report.options.path": sink})
    if side != "a":
        location = f"s3://{setting.store.server.bucket}/recovery-{side}"
        places = ["--location", location, "--workdir", str(directory / "work")]
        return streamjob("run", str(job), *places, *changed, "--set", f"checkpointing.interval={setting.interval:g}s")
    places = ["--checkpoint", f"file://{directory}/checkpoint", "--scratch", str(directory)]
    return [sys.executable, "-m", "bench.plain", str(JOB), "--side", plain.DEFAULTS, *places, *changed]
