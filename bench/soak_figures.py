"""Reads the figures of a job that runs for hours: of its processes and directories."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench.memory import own_bytes, resident_bytes
from bench.proc import descendants

_KB = 1024
_JCMD_SECONDS = 60
_COLLECTIONS = 3
# It is a Java program itself, and is to be a small one.
_JCMD_OPTIONS = ("-J-XX:+UseSerialGC", "-J-XX:TieredStopAtLevel=1")
# One line for G1, one for each generation of the other collectors.
_HEAP = re.compile(r"^ ?\S.*\stotal (\d+)K, used (\d+)K", re.MULTILINE)
_METASPACE = re.compile(r"Metaspace\s+used (\d+)K")
_NATIVE = re.compile(r"^Total: reserved=\d+KB, committed=(\d+)KB", re.MULTILINE)
_HISTOGRAM_TOTAL = re.compile(r"^Total\s+(\d+)\s+(\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Places:
    """The directories and the file that a job may fill.

    Args:
        work: its work directory.
        store: what the S3 server keeps of it.
        temporary: its replacement for the system's directory of temporary files.
        input: the files that it reads.
        log: its output.
    """

    work: Path
    store: Path
    temporary: Path
    input: Path
    log: Path


@dataclass(frozen=True, slots=True)
class Tree:
    """Regular files below a directory, and their size in bytes; directories count as files, empty ones may pile up."""

    files: int
    bytes: int


def tree(directory: Path) -> Tree:
    """Count what is below a directory; what goes meanwhile does not count."""
    files = size = 0
    waiting = [directory]
    while waiting:
        try:
            entries = list(waiting.pop().iterdir())
        except OSError:
            continue
        for entry in entries:
            try:
                found = entry.lstat()
            except OSError:
                continue
            files += 1
            if entry.is_dir() and not entry.is_symlink():
                waiting.append(entry)
            else:
                size += found.st_size
    return Tree(files, size)


def name_of(pid: int) -> str:
    """Return the name of a process' program; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def look(driver: int, places: Places, *, collect: bool) -> dict[str, float]:
    """Return all figures that can be had now.

    Args:
        driver: process id of the driver in Python.
        places: where the job has its files.
        collect: have the JVM collect its garbage, for the size of what is left.
    """
    below = descendants(driver)
    java = [pid for pid in below if name_of(pid) == "java"]
    workers = [pid for pid in below if pid not in java]
    work, store = tree(places.work), tree(places.store)
    temporary, waiting = tree(places.temporary), tree(places.input)
    figures: dict[str, float] = {
        "driver_rss": resident_bytes(driver),
        "jvm_rss": sum(map(resident_bytes, java)),
        "worker_memory": sum(map(own_bytes, workers)),
        "workers": len(workers),
        "driver_descriptors": count_of(driver, "fd"),
        "jvm_descriptors": sum(count_of(pid, "fd") for pid in java),
        "driver_threads": count_of(driver, "task"),
        "jvm_threads": sum(count_of(pid, "task") for pid in java),
        "work_files": work.files,
        "work_bytes": work.bytes,
        "store_files": store.files,
        "store_bytes": store.bytes,
        "temporary_files": temporary.files,
        "temporary_bytes": temporary.bytes,
        "input_files": waiting.files,
        "log_bytes": places.log.stat().st_size,
    }
    for pid in java:
        figures |= jvm_figures(_jcmd(pid, "GC.heap_info"), _jcmd(pid, "VM.native_memory", "summary"))
        if collect:
            # A histogram collects garbage first; a JVM that is in native code skips that now and then.
            seen: list[dict[str, float]] = [live_figures(_jcmd(pid, "GC.class_histogram")) for _ in range(_COLLECTIONS)]
            least = min(seen, key=_live_bytes)
            figures |= least
    return figures


def histogram(driver: int) -> str:
    """Return the JVM's objects by class after a collection; empty without `jcmd`."""
    return "".join(_jcmd(pid, "GC.class_histogram") for pid in descendants(driver) if name_of(pid) == "java")


def native_memory(driver: int) -> str:
    """Return what the JVM's memory is used for; empty without `jcmd`."""
    below = descendants(driver)
    return "".join(_jcmd(pid, "VM.native_memory", "summary") for pid in below if name_of(pid) == "java")


def jvm_figures(heap_info: str, native: str) -> dict[str, float]:
    """Read what `jcmd` says of the heap and, if the JVM tracks it, of native memory."""
    figures: dict[str, float] = {}
    if generations := _HEAP.findall(heap_info):
        figures["heap_committed"] = sum(int(total) for total, _ in generations) * _KB
        figures["heap_used"] = sum(int(used) for _, used in generations) * _KB
    if metaspace := _METASPACE.search(heap_info):
        figures["metaspace"] = int(metaspace[1]) * _KB
    if committed := _NATIVE.search(native):
        figures["native_committed"] = int(committed[1]) * _KB
    return figures


def _live_bytes(figures: dict[str, float]) -> float:
    return figures.get("heap_live", 0.0)


def live_figures(text: str) -> dict[str, float]:
    """Read the last line of the JVM's histogram of objects."""
    total = _HISTOGRAM_TOTAL.search(text)
    return {"heap_live_objects": int(total[1]), "heap_live": int(total[2])} if total else {}


def _jcmd(pid: int, *command: str) -> str:
    jcmd = shutil.which("jcmd")
    if jcmd is None:
        return ""
    try:
        return subprocess.run(
            [jcmd, *_JCMD_OPTIONS, str(pid), *command],
            capture_output=True,
            text=True,
            timeout=_JCMD_SECONDS,
            check=False,
        ).stdout
    except subprocess.TimeoutExpired:
        return ""


def count_of(pid: int, kind: str) -> int:
    """Return how many file descriptors (`fd`) or threads (`task`) a process has; 0 if it has ended."""
    try:
        return len(list(Path(f"/proc/{pid}/{kind}").iterdir()))
    except OSError:
        return 0
