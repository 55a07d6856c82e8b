"""The processes of a driver's pod that run its job, or wait to."""

from __future__ import annotations

import subprocess

from e2e.harness.controller import StreamJobs

_MEMBERS = """
import os, pathlib
members = {}
for each in pathlib.Path("/proc").glob("[0-9]*"):
    try:
        if int(each.name) != os.getpid() and b"process.child" in (each / "cmdline").read_bytes():
            members[int(each.name)] = int((each / "stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        pass
print(*sorted(members, key=members.get))
"""
_KILL = "import os, signal, sys; os.kill(int(sys.argv[1]), signal.SIGKILL)"


def members(jobs: StreamJobs, pod: str) -> list[int]:
    """Return the process ids of a driver's members, the oldest first: without a standby there is one."""
    return [int(each) for each in _run_python(jobs, pod, _MEMBERS).split()]


def kill_member(jobs: StreamJobs, pod: str, process: int) -> None:
    """Kill a process in a driver's pod."""
    _run_python(jobs, pod, _KILL, str(process))


def _run_python(jobs: StreamJobs, pod: str, code: str, *arguments: str) -> str:
    command = ["kubectl", "--namespace", jobs.namespace.name, "exec", pod, "--container", "streamjob", "--"]
    done = subprocess.run(
        [*command, "python", "-c", code, *arguments], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout.strip()
