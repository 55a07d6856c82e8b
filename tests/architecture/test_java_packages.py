"""Java's packages have a direction, as Python's have by import-linter, and Python names classes that are there."""

from __future__ import annotations

import re
from collections import defaultdict

from streamjob_runtime.spark.jvm import CLASSES, SOURCES

USES = {
    "avro": {"records"},
    "changes": set(),
    "channels": {"files", "filesource"},
    "eventtime": {"kafka", "plans"},
    "executors": {"files"},
    "files": {"process"},
    "filesource": {"avro", "plans", "text"},
    "joins": {"plans"},
    "kafka": set(),
    "pinning": set(),
    "plans": set(),
    "process": set(),
    "protobuf": {"records"},
    "records": set(),
    "rules": {"plans"},
    "state": {"eventtime", "joins"},
    "text": {"plans", "records"},
}
"""The packages below `io.streamjob`, and what each of them may use."""
MOST_CLASSES = 12

_PACKAGE = re.compile(r"^package io\.streamjob\.(\w+);$", re.MULTILINE)
_USE = re.compile(r"\bio\.streamjob\.(\w+)\.[A-Z]")


def packages() -> dict[str, dict[str, str]]:
    """Return the sources of each package by the names of their classes."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for file in SOURCES.rglob("*.java"):
        source = file.read_text(encoding="utf-8")
        declared = _PACKAGE.search(source)
        assert declared, f"{file} is in no package below io.streamjob"
        assert file.parent == SOURCES / "io" / "streamjob" / declared[1]
        found[declared[1]][file.stem] = source
    return found


def test_packages_use_only_what_they_may() -> None:
    used = {
        package: {other for source in sources.values() for other in _USE.findall(source)} - {package}
        for package, sources in packages().items()
    }

    assert used == USES


def test_no_package_uses_itself_through_others() -> None:
    left = dict(USES)
    while free := {package for package, uses in left.items() if not uses & left.keys()}:
        left = {package: uses for package, uses in left.items() if package not in free}

    assert left == {}


def test_a_package_has_few_classes() -> None:
    assert {package: len(sources) for package, sources in packages().items() if len(sources) > MOST_CLASSES} == {}


def test_python_names_public_classes() -> None:
    public = {
        f"io.streamjob.{package}.{name}"
        for package, sources in packages().items()
        for name, source in sources.items()
        if re.search(rf"^public (?:final )?class {name}\b", source, re.MULTILINE)
    }

    assert set(CLASSES.values()) <= public
