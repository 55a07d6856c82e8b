"""Builds the jar from the Java sources: `python -m streamjob_runtime.spark.jvm.build`; needs `javac` 17 or later."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
import zipfile
from pathlib import Path

from streamjob_runtime.spark.connectors.artifacts import CONNECTORS
from streamjob_runtime.spark.connectors.buckets import S3A
from streamjob_runtime.spark.connectors.finding import jars
from streamjob_runtime.spark.jvm import CLASSES, JAR, SOURCES

SERVICES = {
    "org.apache.spark.scheduler.ExternalClusterManager": CLASSES["LocalExecutors"],
    "org.apache.spark.sql.sources.DataSourceRegister": CLASSES["AvroFiles"],
}
"""Classes that Java finds by the interface that they implement."""
SOURCE_HASH_ENTRY = "META-INF/streamjob-source.sha256"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same sources give the same jar


def source_hash() -> str:
    """Return a hash of all Java sources; the jar contains it, so that a test can check that it is current."""
    digest = hashlib.sha256()
    for source in _sources():
        digest.update(source.relative_to(SOURCES).as_posix().encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()


def build(jar: Path = JAR) -> None:
    """Compile the sources against the jars of PySpark and of the connectors, and write the jar.

    Raises:
        CannotFetch: a connector's jars are missing and cannot be downloaded.
        subprocess.CalledProcessError: they do not compile; the compiler has printed its errors.
    """
    import pyspark

    connectors = [str(jar) for name in CONNECTORS if name != S3A for jar in jars(name, os.environ)]
    classpath = os.pathsep.join([str(Path(pyspark.__file__).parent / "jars" / "*"), *connectors])
    with tempfile.TemporaryDirectory() as scratch:
        command = [
            "javac",
            "--release",
            "17",
            "-Xlint:all,-classfile,-path",
            "-Werror",
            "-cp",
            classpath,
            "-d",
            scratch,
        ]
        subprocess.run([*command, *map(str, _sources())], check=True)
        with zipfile.ZipFile(jar, "w") as archive:
            archive.writestr(zipfile.ZipInfo("META-INF/MANIFEST.MF", _EPOCH), "Manifest-Version: 1.0\r\n\r\n")
            archive.writestr(zipfile.ZipInfo(SOURCE_HASH_ENTRY, _EPOCH), source_hash())
            for service, provider in SERVICES.items():
                archive.writestr(zipfile.ZipInfo(f"META-INF/services/{service}", _EPOCH), f"{provider}\n")
            for compiled in sorted(Path(scratch).rglob("*.class")):
                name = compiled.relative_to(scratch).as_posix()
                archive.writestr(zipfile.ZipInfo(name, _EPOCH), compiled.read_bytes())


def _sources() -> list[Path]:
    return sorted(SOURCES.rglob("*.java"))


if __name__ == "__main__":
    build()
