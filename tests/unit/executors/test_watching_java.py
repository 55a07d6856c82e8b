"""An agent gives its Java up when that ends, or when its directories are removed."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamjob_runtime.executors.agent.agent import _Over, _watch


@pytest.fixture
def java() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def test_the_end_of_java_is_told_with_its_cause(java: subprocess.Popen[bytes], tmp_path: Path) -> None:
    over = _Over(threading.Event())
    java.terminate()

    _watch(java, None, (tmp_path,), over)

    assert over.reason == "its Java has ended: SIGTERM ended it"


def test_a_java_without_its_directories_is_given_up(java: subprocess.Popen[bytes], tmp_path: Path) -> None:
    over = _Over(threading.Event())

    _watch(java, None, (tmp_path, tmp_path / "sockets"), over)

    assert over.reason == f"its directory {tmp_path / 'sockets'} was removed"
