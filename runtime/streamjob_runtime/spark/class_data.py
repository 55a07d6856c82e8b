"""An archive of loaded classes that lets Spark's Java start a third faster (class-data sharing, JEP 350).

`python -m streamjob_runtime.spark.warm_up` creates it once: it runs a small job and archives the classes that Java has
loaded by then. Java itself checks whether an archive fits its version and class path, and ignores one that does not.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from streamjob_runtime.spark.jvm import JAR
from streamjob_runtime.spark.process.java import WRAPPER, Java

DIRECTORY_VARIABLE = "STREAMJOB_CACHE_DIR"
TRAIN_VARIABLE = "STREAMJOB_TRAIN_CLASS_DATA"
"""Set to 1 in the run that creates the archive."""


def archive(java: Java, environment: Mapping[str, str]) -> Path:
    """Return the path of the archive for a Java, whether it exists or not."""
    directory = Path(environment.get(DIRECTORY_VARIABLE) or Path(sys.prefix) / "var" / "streamjob")
    stat = java.executable.stat()
    jar = hashlib.sha256(JAR.read_bytes()).hexdigest()
    # Java compares paths, so a copied environment needs an archive of its own.
    spark = find_spec("pyspark")
    identity = f"{WRAPPER} {java.executable.resolve()} {stat.st_mtime_ns} {stat.st_size} {jar} {spark and spark.origin}"
    return directory / f"classes-{hashlib.sha256(identity.encode()).hexdigest()[:16]}.jsa"


def can_archive(java: Java) -> bool:
    """Return whether a Java has the archive of its own classes on which ours is based; a trimmed one has none."""
    return any((java.executable.resolve().parent.parent / "lib").rglob("classes.jsa"))


def java_options(java: Java, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the options that use the archive, or create it in the training run; none if there is none."""
    target = archive(java, environment)
    if environment.get(TRAIN_VARIABLE) == "1":
        target.parent.mkdir(parents=True, exist_ok=True)
        return (f"-XX:ArchiveClassesAtExit={target}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")
    return (f"-XX:SharedArchiveFile={target}",) if target.exists() else ()


def class_path(jars: Path) -> list[str]:
    """Return the class path with which Spark's launcher starts a driver: archived classes are used with no other one.

    Args:
        jars: the directory of Spark's jars.
    """
    first = sorted(map(str, jars.glob("slf4j-api-*.jar")))
    return [f"{jars.parent / 'conf'}{os.sep}", *first, f"{jars}/*"]


def hint(java: Java, environment: Mapping[str, str]) -> str | None:
    """Return a hint if Spark could start faster with an archive that can be created; otherwise None."""
    target = archive(java, environment)
    if target.exists() or environment.get(TRAIN_VARIABLE) == "1" or not can_archive(java):
        return None
    others = any(target.parent.glob("classes-*.jsa"))
    why = "fits another release of streamjob or of Java, or another place" if others else "has not been made"
    return (
        f"Spark starts slowly: the archive of its classes {why}; `python -m streamjob_runtime.spark.warm_up` makes it"
    )
