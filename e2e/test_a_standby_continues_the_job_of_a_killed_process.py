"""A driver with a standby loses its process: the standby continues in the same pod, and the output does not show it."""

from __future__ import annotations

import subprocess

import pytest
from e2e.harness.controller import StreamJobs, last_checkpoint
from e2e.harness.visits import visits

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

NAME = "visits"
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


def run_python(jobs: StreamJobs, pod: str, code: str, *arguments: str) -> str:
    """Run Python code in a driver's container; return its output."""
    command = ["kubectl", "--namespace", jobs.namespace.name, "exec", pod, "--container", "streamjob", "--"]
    done = subprocess.run(
        [*command, "python", "-c", code, *arguments], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout.strip()


def test_a_job_with_a_standby_goes_on_in_the_same_pod(jobs: StreamJobs) -> None:
    jobs.namespace.write(visits(0, 20))
    jobs.apply(NAME, driver={**jobs.namespace.driver, "standby": 1})
    before = jobs.wait_for_checkpoint(NAME)
    (pod,) = jobs.drivers(NAME)
    ready = jobs.wait(
        NAME, lambda status: len(run_python(jobs, pod, _MEMBERS).split()) == 2, what="second process in the pod"
    )
    assert ready["jobStatus"]["attempt"] == before["jobStatus"]["attempt"]

    running, _ = run_python(jobs, pod, _MEMBERS).split()
    run_python(jobs, pod, _KILL, running)
    jobs.namespace.write(visits(20, 40))
    after = jobs.wait(
        NAME,
        lambda status: (
            status["jobStatus"]["epoch"] > before["jobStatus"]["epoch"]
            and last_checkpoint(status) > last_checkpoint(before)
        ),
        what="checkpoint of the standby",
    )

    assert after["jobStatus"]["attempt"] == before["jobStatus"]["attempt"]
    assert jobs.drivers(NAME) == [pod]
    jobs.wait_for_whole_report(NAME, 40)
