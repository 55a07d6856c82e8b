"""File systems of their own with little space."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def small_disk_at(directory: Path, size: int) -> Iterator[Path]:
    """Mount a file system of `size` bytes at a new directory; skip the test where that is not possible."""
    directory.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(directory)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        pytest.skip(f"no file system can be mounted here: {error}")
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    yield directory
    subprocess.run(["umount", "--lazy", str(directory)], check=True)


def fill(disk: Path) -> Path:
    """Take all space that is left, again if some was given back; return the file that takes it."""
    ballast = disk / "ballast"
    with ballast.open("ab", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 65536)
        except OSError:
            return ballast
