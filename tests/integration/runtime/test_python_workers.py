"""Python workers are forks of a process with all their libraries, if it can be forked safely."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

THREAD = "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
OURS = "streamjob_runtime.spark.python_workers"
UNLOADED = f"from {OURS} import serve; serve()"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("at_start", "forks"), [("", OURS), (THREAD, UNLOADED)], ids=["without threads", "a library has started a thread"]
)
def test_workers_are_forks_of_a_process_with_a_single_thread(tmp_path: Path, at_start: str, forks: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(at_start)
    # Spark sets the number of threads to the cores of a task.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(tmp_path)}
    environment.pop("PYTHON_UNIX_DOMAIN_ENABLED", None)
    daemon = subprocess.Popen(
        [sys.executable, "-m", OURS, "pyspark.worker"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert daemon.stdin is not None
    assert daemon.stdout is not None
    try:
        port = int.from_bytes(daemon.stdout.read(4), "big")
        command = Path(f"/proc/{daemon.pid}/cmdline").read_text().split("\0")
        inherited = Path(f"/proc/{daemon.pid}/environ").read_text()
        daemon.stdin.close()
        # A daemon without a caller ends itself, by the signal that it sends to all of its workers.
        daemon.wait(30)
    finally:
        daemon.kill()
        daemon.stdout.close()

    assert 0 < port < 65536
    assert forks in command
    assert "JE_ARROW_MALLOC_CONF" not in inherited, "only the process that has set it uses it"
