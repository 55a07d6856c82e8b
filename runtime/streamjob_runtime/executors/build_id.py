"""Identifies a build, so that executors of another one are refused: rows and state pass between them as objects."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from importlib import metadata

from streamjob_runtime.spark.jvm import JAR


def this_build() -> dict[str, str]:
    """Return what must be equal in a driver and its executors, by name."""
    packages = sorted(f"{each.name}=={each.version}" for each in metadata.distributions())
    return {
        "Python": platform.python_version(),
        "streamjob": metadata.version("streamjob"),
        "PySpark": metadata.version("pyspark"),
        "streamjob's Java classes": hashlib.sha256(JAR.read_bytes()).hexdigest()[:16],
        "Python packages": hashlib.sha256("\n".join(packages).encode()).hexdigest()[:16],
    }


def differences(ours: Mapping[str, str], theirs: Mapping[str, str]) -> tuple[str, ...]:
    """Return in words how the build of an executor differs from the driver's; nothing if it does not."""
    return tuple(
        f"{name} is {theirs.get(name, 'unknown')} and not {value}"
        for name, value in ours.items()
        if theirs.get(name) != value
    )
