"""The benchmark's account of a process, its memory and its remains."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from bench.memory import own_bytes, resident_bytes
from bench.proc import descendants
from bench.processes import RunFailed, measure, started

BUSY = "import time\nwhile time.process_time() < 0.2: pass"


def test_the_time_of_descendants_counts_also_if_their_parent_ended_before(tmp_path: Path) -> None:
    orphan = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {BUSY!r}])"

    used = measure([sys.executable, "-c", orphan], tmp_path, timeout=30)

    assert used.cpu >= 0.2


def test_a_run_that_fails_is_an_error_with_the_end_of_its_log(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match=r"ended with 1; (.|\n)*no such luck"):
        measure([sys.executable, "-c", "raise SystemExit('no such luck')"], tmp_path, timeout=30)


def test_nothing_of_a_process_is_left_behind_its_block(tmp_path: Path) -> None:
    sleeper = "import time; print('up', flush=True); time.sleep(60)"
    parent = (
        "import subprocess, sys, time;"
        f"subprocess.Popen([sys.executable, '-c', {sleeper!r}], start_new_session=True).wait()"
    )
    log = tmp_path / "log.txt"

    with started([sys.executable, "-c", parent], log) as process:
        while not log.read_text():
            assert process.poll() is None
        (child,) = descendants(process.pid)

    assert not Path(f"/proc/{child}").exists() or " Z " in Path(f"/proc/{child}/stat").read_text()


def test_the_memory_of_a_process_is_read_and_that_of_none_is_nothing() -> None:
    held = bytearray(os.urandom(1)) * 50_000_000

    assert resident_bytes(os.getpid()) > own_bytes(os.getpid()) >= len(held)
    assert resident_bytes(2**30) == 0
