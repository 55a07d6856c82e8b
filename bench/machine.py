"""Describes the machine and the versions that a measurement was made with."""

from __future__ import annotations

import os
import platform
import re
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from bench.model import Circumstances

from streamjob_runtime.spark.java import find_java


def circumstances(begun: float, command: str) -> Circumstances:
    """Return when, where and with what a part was measured that began at `begun`, in seconds since 1970."""
    return Circumstances(
        command=command, begun=_utc(begun), ended=_utc(time.time()), machine=_machine(), versions=_versions()
    )


def command_line(target: str) -> str:
    """Return the command that makes these results again, with a target of the Makefile."""
    # A lock that others of the machine respect does not change what is measured.
    arguments = re.sub(r"--lock[= ]\S+ ?", "", " ".join(sys.argv[1:])).strip()
    return f'{target} ARGS="{arguments}"' if arguments else target


def _utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))


def _machine() -> str:
    info = Path("/proc/cpuinfo").read_text()
    name = re.search(r"model name\s*: (.*)", info)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} × {name[1] if name else platform.machine()}, {memory:.0f} GiB, {platform.system()}"


def _versions() -> dict[str, str]:
    return {
        "streamjob": version("streamjob"),
        "Spark": version("pyspark"),
        "Python": platform.python_version(),
        "Java": _java(),
    }


def _java() -> str:
    with tempfile.TemporaryDirectory() as directory:
        return str(find_java(os.environ, Path(directory)).version)
