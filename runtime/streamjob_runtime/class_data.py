"""The archive of loaded classes that lets Spark's Java start in a third less time (class-data sharing, JEP 350).

It is made once by `python -m streamjob_runtime.warm_up`, which runs a small job and keeps what Java has loaded by then.
Java checks by itself that an archive fits its version and class path, and goes without where it does not.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from streamjob_runtime.java import Java
from streamjob_runtime.jvm import JAR

DIRECTORY_VARIABLE = "STREAMJOB_CACHE_DIR"
TRAIN_VARIABLE = "STREAMJOB_TRAIN_CLASS_DATA"
"""Set to 1 in the run that makes the archive."""

_DUMP_SECONDS = 300


def archive(java: Java, environment: Mapping[str, str]) -> Path:
    """Return where the archive for a Java lies, whether it exists or not."""
    directory = Path(environment.get(DIRECTORY_VARIABLE) or Path(sys.prefix) / "var" / "streamjob")
    stat = java.executable.stat()
    identity = f"{java.executable.resolve()} {stat.st_mtime_ns} {stat.st_size} {hash_of(JAR)}"
    return directory / f"classes-{hashlib.sha256(identity.encode()).hexdigest()[:16]}.jsa"


def java_options(java: Java, environment: Mapping[str, str]) -> str:
    """Return the options that use the archive, or in the training run the ones that make it; empty if there is none."""
    target = archive(java, environment)
    base = _base(target)
    if environment.get(TRAIN_VARIABLE) == "1":
        target.parent.mkdir(parents=True, exist_ok=True)
        return f"{_shared(base) if _make_base(java, base) else ''} -XX:ArchiveClassesAtExit={target}".strip()
    if not target.exists():
        return ""
    return _shared(Path(f"{base}:{target}") if base.exists() else target)


def hash_of(file: Path) -> str:
    """Return the SHA-256 of a file's content."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def forget(java: Java, environment: Mapping[str, str] = os.environ) -> None:
    """Remove the archive of a Java, if there is one."""
    target = archive(java, environment)
    for file in (target, _base(target)):
        file.unlink(missing_ok=True)


def _shared(archives: Path) -> str:
    return f"-XX:SharedArchiveFile={archives}"


def _base(target: Path) -> Path:
    return target.with_suffix(".base.jsa")


def _make_base(java: Java, base: Path) -> bool:
    """Make the archive of Java's own classes where a trimmed Java came without; return whether one was made."""
    if any((java.executable.resolve().parent.parent / "lib").rglob("classes.jsa")):
        return False
    command = [str(java.executable), "-Xshare:dump", f"-XX:SharedArchiveFile={base}"]
    done = subprocess.run(command, capture_output=True, timeout=_DUMP_SECONDS, check=False)
    return done.returncode == 0 and base.exists()
