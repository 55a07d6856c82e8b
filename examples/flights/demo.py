"""Runs the flights job, kills it on the way with SIGKILL, and compares its output with the same query run as a batch.

With --executors, the job's executors are killed one by one instead, and the job goes on in the same process.
Ends with 0 if the rows are identical, with 1 if they differ or the job failed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from compare import Comparison, compare_with_batch
from prepare import prepare
from rich.console import Console
from watch import Follower, wait_until

from streamjob.snapshot.record import LogRecord

HERE = Path(__file__).resolve().parent
STATE = HERE / ".streamjob" / "demo"
LOCATION = STATE / "snapshots"
ROOT = LOCATION / "default" / "flights"
OUTPUT = HERE / "demo-output"
DATA = HERE / "data"

PROGRESS_WITHIN = 180.0
"""Seconds in which a life of the job has to get ahead, Spark's start on a slow machine included."""

console = Console(stderr=True, highlight=False)


class DemoFailed(Exception):
    """The job did not do what the demo asked of it."""


@dataclass(frozen=True, slots=True)
class Kill:
    """When to kill a process of the job: this many seconds after its n-th checkpoint that covers new input."""

    checkpoints: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Life:
    """The life of one process of the job, from its log: its start and its completions."""

    restored: LogRecord | None
    completed: list[int]
    exit_code: int
    recovery: float | None
    killed_at: float | None


def plan_kills(count: int, seed: int) -> list[Kill]:
    """Choose random moments to kill: after one of the first checkpoints, until about the next one."""
    chance = random.Random(seed)
    return [Kill(checkpoints=chance.randint(1, 3), seconds=chance.uniform(0.0, 2.0)) for _ in range(count)]


@dataclass(frozen=True, slots=True)
class Loss:
    """An executor that was killed: its name, and the seconds until a checkpoint covered new input."""

    executor: str
    recovery: float | None


@contextlib.contextmanager
def running(job: str, executors: int = 0) -> Iterator[subprocess.Popen[bytes]]:
    """Run the job in a process group of its own, whose members are gone at the end whatever happens."""
    program = Path(sys.executable).with_name("streamjob")
    places = ["--location", str(LOCATION), "--workdir", str(STATE / "work")]
    command = [str(program), "run", str(HERE / job), *places, "--set", f"sinks.report.options.path={OUTPUT}"]
    if executors:
        command += ["--executors", str(executors)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def live(job: str, kill: Kill | None, killed_before: float | None) -> Life:
    """Run the job until it ends, or until `kill` says so.

    Args:
        job: name of the job file.
        kill: when to end this life; None to let it run to its end.
        killed_before: time of the kill that this life follows, on the monotonic clock.
    """
    follower = Follower(ROOT)
    recovery: float | None = None
    killed_at: float | None = None
    deadline = time.monotonic() + PROGRESS_WITHIN

    with running(job) as process:

        def happened(condition: Callable[[], bool], until: float) -> bool:
            """Wait for a condition, or for the job's end; return whether the job goes on and the condition holds."""

            def settled() -> bool:
                follower.look()
                return process.poll() is not None or condition()

            if not wait_until(settled, until):
                raise DemoFailed(f"the job made no progress within {PROGRESS_WITHIN:.0f} s")
            return process.poll() is None

        if happened(lambda: follower.claim is not None, deadline):
            say(f"started: {place(follower.restored)}")
        if happened(lambda: bool(follower.progress), deadline) and killed_before is not None:
            recovery = time.monotonic() - killed_before
        if kill and happened(lambda: len(follower.progress) >= kill.checkpoints, deadline):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(kill.seconds)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                killed_at = time.monotonic()
        exit_code = process.wait()
        follower.look()
    return Life(follower.restored, sorted(follower.positions), exit_code, recovery, killed_at)


def live_and_lose(job: str, kills: list[Kill], executors: int, chance: random.Random) -> tuple[Life, list[Loss]]:
    """Run the job from its start to its end on executors, and kill one of them for each of `kills`."""
    follower, losses = Follower(ROOT), []
    with running(job, executors) as process:

        def get_ahead(checkpoints: int) -> bool:
            """Wait for checkpoints that cover new input; return whether the job goes on."""
            wanted = len(follower.progress) + checkpoints

            def settled() -> bool:
                follower.look()
                return process.poll() is not None or len(follower.progress) >= wanted

            if not wait_until(settled, time.monotonic() + PROGRESS_WITHIN):
                raise DemoFailed(f"the job made no progress within {PROGRESS_WITHIN:.0f} s")
            return process.poll() is None

        for kill in kills:
            if not get_ahead(kill.checkpoints):
                break
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(kill.seconds)
            there = java_of_executors(STATE / "work" / "executors")
            if process.poll() is not None or not there:
                break
            victim = chance.choice(sorted(there))
            os.kill(there[victim], signal.SIGKILL)
            killed_at = time.monotonic()
            follower.look()
            say(f"[bold red]killed {victim} with SIGKILL[/] after checkpoint {max(follower.positions, default=0)}")
            recovery = time.monotonic() - killed_at if get_ahead(1) else None
            losses.append(Loss(victim, recovery))
        exit_code = process.wait()
        follower.look()
    if exit_code != 0:
        raise DemoFailed(f"the job ended with exit code {exit_code}")
    return Life(follower.restored, sorted(follower.positions), exit_code, None, None), losses


def java_of_executors(directory: Path) -> dict[str, int]:
    """Return the process ids of the Java of executors, by name; each works below `directory`."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_text().split("\0")
            for word in words if "io.streamjob.executors.ExecutorProcess" in words else ():
                files = word.removeprefix("-Dstreamjob.files=")
                if files != word and Path(files).is_relative_to(directory):
                    found[Path(files).relative_to(directory).parts[0]] = int(entry.name)
    return found


def place(record: LogRecord | None) -> str:
    """Say where a life of the job begins."""
    return f"from {record.kind} {record.id}" if record else "from nothing, there is no checkpoint yet"


def say(text: str) -> None:
    """Print a line of the demo's own between those of the job."""
    console.print(f"[bold magenta]demo[/] {text}", soft_wrap=True)


def show_cursor() -> None:
    """Bring back the cursor that a killed terminal view had hidden."""
    if sys.stdout.isatty():
        sys.stdout.write("\x1b[?25h\n")
        sys.stdout.flush()


def live_and_die(job: str, kills: list[Kill]) -> list[Life]:
    """Run the job from its start to its end, through all the kills."""
    lives: list[Life] = []
    pending = list(kills)
    while True:
        kill = pending.pop(0) if pending else None
        life = live(job, kill, lives[-1].killed_at if lives else None)
        lives.append(life)
        if life.killed_at is None:
            if life.exit_code != 0:
                raise DemoFailed(f"the job ended with exit code {life.exit_code}")
            return lives
        show_cursor()
        last = f"checkpoint {life.completed[-1]}" if life.completed else "no checkpoint"
        say(f"[bold red]killed with SIGKILL[/] after {last}; starting it again")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def report(lives: list[Life], losses: list[Loss], asked: int, comparison: Comparison, seconds: float) -> None:
    """Say what happened to the job or its executors, to be killed `asked` times, and what the output is worth."""
    for number, life in enumerate(lives, start=1):
        end = "killed" if life.killed_at is not None else "finished"
        recovery = f", a new checkpoint {life.recovery:.1f} s after the kill" if life.recovery is not None else ""
        say(
            f"life {number}: {place(life.restored)}{recovery}; {counted(len(life.completed), 'completion')}, then {end}"
        )
    for loss in losses:
        recovery = "" if loss.recovery is None else f", a new checkpoint {loss.recovery:.1f} s later"
        say(f"{loss.executor}: killed{recovery}")
    kills = len(losses) + sum(life.killed_at is not None for life in lives)
    if kills < asked:
        say(f"the job was done before it could be killed {counted(asked, 'time')}")
    say(f"sink: {comparison.found:,} rows; Spark batch: {comparison.expected:,} rows; {seconds:.0f} s in all")
    if comparison.identical:
        say(f"[bold green]identical rows[/]: nothing lost and nothing twice, killed {counted(kills, 'time')}")
        return
    say(f"[bold red]different rows[/]: {comparison.missing.total()} missing, {comparison.surplus.total()} surplus")
    for title, rows in (("missing", comparison.missing), ("surplus", comparison.surplus)):
        for row in list(rows)[:3]:
            say(f"  {title}: {row}")


def clear() -> None:
    """Remove what a former demo left."""
    for directory in (STATE, OUTPUT):
        shutil.rmtree(directory, ignore_errors=True)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=2, metavar="N", help="how often to kill the job (2)")
    parser.add_argument("--seed", type=int, metavar="N", help="of the moments at which it is killed (drawn)")
    parser.add_argument("--job", choices=["job.yaml", "job.py"], default="job.yaml", help="SQL or Python (job.yaml)")
    parser.add_argument("--executors", type=int, default=0, metavar="N", help="run on N executors, and kill those")
    parser.add_argument("--keep", action="store_true", help="keep the snapshots and the work directory at the end")
    return parser.parse_args()


def main() -> int:
    """Run the demo; return its exit code."""
    options = arguments()
    # The job has a process group of its own: being told to end has to reach it.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    seed = random.SystemRandom().randrange(10_000) if options.seed is None else options.seed
    begin = time.monotonic()
    clear()
    say(f"preparing 336,776 flights and the weather; {counted(options.kills, 'kill')}, drawn by --seed {seed}")
    prepare(DATA)
    try:
        kills, losses = plan_kills(options.kills, seed), list[Loss]()
        if options.executors:
            life, losses = live_and_lose(options.job, kills, options.executors, random.Random(seed))
            lives = [life]
        else:
            lives = live_and_die(options.job, kills)
        show_cursor()
        say("the job has finished; running the same query as a Spark batch")
        comparison = compare_with_batch(HERE / options.job, OUTPUT, STATE / "compare")
    except DemoFailed as failure:
        show_cursor()
        say(f"[bold red]failed[/]: {failure}; everything is kept in {STATE}")
        return 1
    console.print()
    say(f"the output is in {OUTPUT}")
    if options.keep or not comparison.identical:
        say(f"look at the snapshots: streamjob snapshots list {LOCATION}")
    else:
        shutil.rmtree(STATE, ignore_errors=True)
    report(lives, losses, options.kills, comparison, time.monotonic() - begin)
    return 0 if comparison.identical else 1


if __name__ == "__main__":
    sys.exit(main())
