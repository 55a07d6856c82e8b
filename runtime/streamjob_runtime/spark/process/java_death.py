"""Says why a Java has ended: from its exit code, its own report of a crash, and the kernel's count of kills."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path

_HEAP_IS_FULL = frozenset({3, 52})
"""Exit codes behind an OutOfMemoryError: of Java with `ExitOnOutOfMemoryError`, and of Spark's own handler."""
_MORE_MEMORY = "give the process more memory, or lower spark.driver.memory or parallelism"
_NO_MEMORY = "insufficient memory for the Java Runtime"


@dataclass(frozen=True, slots=True)
class JavaDeath:
    """Why a Java has ended.

    Args:
        cause: follows "Spark's process has ended: ".
        advice: what helps; empty if nothing is known.
    """

    cause: str
    advice: str = ""


def oom_kills(root: Path = Path("/")) -> int | None:
    """Return how many processes of this control group the kernel has killed for their memory; None if it does not say.

    Args:
        root: the file system with `proc` and `sys`.
    """
    own = ""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
        own = next((line[3:].strip("/") for line in lines if line.startswith("0::")), "")
    except OSError:
        pass
    groups = root / "sys/fs/cgroup"
    for file in (groups / own / "memory.events", groups / "memory.events", groups / "memory/memory.oom_control"):
        try:
            counts = dict(line.split()[:2] for line in file.read_text().splitlines())
        except (OSError, ValueError):
            continue
        if counts.get("oom_kill", "").isdecimal():
            return int(counts["oom_kill"])
    return None


def why_ended(code: int, pid: int, kills: tuple[int | None, int | None], directory: Path) -> JavaDeath:
    """Return why a Java has ended.

    Args:
        code: its exit code, negative for a signal.
        pid: its process id.
        kills: `oom_kills` before its start and now.
        directory: the one in which it was started, where it leaves a report of a crash.
    """
    if code in _HEAP_IS_FULL:
        return JavaDeath(
            f"its heap was full (OutOfMemoryError, exit code {code})",
            "raise spark.driver.memory, or lower parallelism",
        )
    report = directory / f"hs_err_pid{pid}.log"
    if report.exists():
        with report.open(encoding="utf-8", errors="replace") as file:
            beginning = file.read(4096)
        if _NO_MEMORY in beginning:
            return JavaDeath(f"the machine had no memory left for it, see {report}", _MORE_MEMORY)
        return JavaDeath(f"it crashed, see {report}")
    # Java itself turns SIGTERM and its like into an exit code.
    number = -code if code < 0 else code - 128
    if number not in signal.valid_signals():
        return JavaDeath(f"its exit code is {code}")
    if number != signal.SIGKILL:
        return JavaDeath(f"{signal.Signals(number).name} ended it")
    before, now = kills
    if before is None or now is None:
        return JavaDeath("SIGKILL ended it, which the kernel sends when memory runs out", _MORE_MEMORY)
    if now > before:
        return JavaDeath("the kernel killed it, because the memory of its container was used up", _MORE_MEMORY)
    return JavaDeath("somebody sent it SIGKILL; the kernel reports no lack of memory")
