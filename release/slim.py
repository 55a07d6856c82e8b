"""Removes from an image what no job in a pod uses: `python3 slim.py SITE_PACKAGES`. Needs nothing but Python.

Native libraries for other platforms are two thirds of RocksDB's jar. Of Spark's jars go the client of Kubernetes (the
controller makes the pods), Hive's metastore, the server of Spark Connect, and the shell with its compiler.
"""

from __future__ import annotations

import platform
import sys
import zipfile
from pathlib import Path

UNUSED = (
    "ammonite*",
    "datanucleus-*",
    "derby*",
    "hive-beeline-*",
    "hive-cli-*",
    "hive-exec-*",
    "hive-jdbc-*",
    "hive-metastore-*",
    "hive-serde-*",
    "hive-service-rpc-*",
    "hive-shims-*",
    "javax.jdo-*",
    "jdo-api-*",
    "kubernetes-*",
    "scala-compiler-*",
    "spark-connect_*",
    "spark-hive-thriftserver_*",
    "spark-hive_*",
    "spark-kubernetes_*",
    "spark-repl_*",
    "vertx-*",
    "zjsonpatch-*",
)
"""Patterns of the names of Spark's jars that go."""
NATIVE = (".so", ".dll", ".jnilib", ".dylib")
PLATFORMS = {"x86_64": ("linux64.so", "linux/amd64/", "Linux/x86_64/"), "aarch64": ("aarch64.so", "aarch64/")}
"""By machine, parts of the names of the native libraries that stay."""


def stays(entry: str, machine: str) -> bool:
    """Return whether an entry of a jar is of use on a Linux with glibc.

    Args:
        entry: its name in the jar.
        machine: `x86_64` or `aarch64`.
    """
    if not entry.endswith(NATIVE):
        return True
    foreign = ("darwin", "mac/", "win", "freebsd", "aix", "sunos", "osx", "android", "musl")
    if any(each in entry.lower() for each in foreign):
        return False
    return any(each in entry for each in PLATFORMS[machine])


def slim_jar(jar: Path, machine: str) -> None:
    """Rewrite a jar without native libraries of other platforms, if it has any."""
    with zipfile.ZipFile(jar) as archive:
        kept = [each for each in archive.infolist() if stays(each.filename, machine)]
        if len(kept) == len(archive.infolist()):
            return
        slim = jar.with_suffix(".slim")
        with zipfile.ZipFile(slim, "w", zipfile.ZIP_DEFLATED) as target:
            for entry in kept:
                target.writestr(entry, archive.read(entry))
    slim.replace(jar)


def main() -> None:
    """Slim the packages in the directory that the first argument names."""
    jars = Path(sys.argv[1]) / "pyspark" / "jars"
    for pattern in UNUSED:
        for jar in jars.glob(f"{pattern}.jar"):
            jar.unlink()
    machine = platform.machine()
    if machine in PLATFORMS:
        for jar in jars.glob("*.jar"):
            slim_jar(jar, machine)


if __name__ == "__main__":
    main()
