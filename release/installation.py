"""An environment into which a wheel was installed as a user installs it: its bill of materials and its size."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from release.artifacts import ROOT, UV

_LOCK = ROOT / "release" / "requirements.lock"
_BILL = ("--output-reproducible", "--short-PURLs", "--sv", "1.6", "--pyproject", ROOT / "pyproject.toml")
_VENDOR = re.compile(r"^Implementation-Vendor-Id: ([\w.-]+)\s*$", re.MULTILINE)
_JAR = re.compile(r"(?P<name>.+?)-(?P<version>\d[\w.]*(?:-[\w.]+)*)\.jar")


@dataclass(frozen=True, slots=True)
class Component:
    """A Python package with all its files: its name, version and size in bytes."""

    name: str
    version: str
    size: int


class Installation:
    """An environment with streamjob and some of its extras.

    Args:
        directory: the environment's.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @classmethod
    def of(cls, wheel: Path, extras: Sequence[str], directory: Path) -> Installation:
        """Install a wheel with extras in the versions of the lock, into a new environment.

        Args:
            extras: names of its extras.
            directory: of the environment.
        """
        _make_environment(directory, "--constraints", ROOT / "requirements.lock", f"{wheel}[{','.join(extras)}]")
        return cls(directory)

    @property
    def scripts(self) -> Path:
        """The directory of its commands."""
        return self._directory / "bin"

    @property
    def packages(self) -> Path:
        """The directory of its packages."""
        return next((self._directory / "lib").glob("python3*/site-packages"))

    def write_bill(self, target: Path, tools: Path, time: int) -> None:
        """Write the bill of materials as CycloneDX JSON: the Python packages, and the jars within them.

        Args:
            target: file to write.
            tools: directory of an environment for the program that lists packages; made if it is missing.
            time: the time in the bill, in seconds since 1970.
        """
        if not (tools / "bin" / "cyclonedx-py").exists():
            _make_environment(tools, "--require-hashes", "-r", _LOCK)
        command: list[str | Path] = [tools / "bin" / "cyclonedx-py", "environment", self._directory, *_BILL]
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(time)}
        listed = subprocess.run(command, env=environment, capture_output=True, check=True)
        bill: dict[str, Any] = json.loads(listed.stdout)
        bill["components"] += [jar_component(jar) for jar in sorted(self.packages.rglob("*.jar"))]
        target.write_text(json.dumps(bill, indent=1) + "\n")

    def components(self) -> list[Component]:
        """Return what it consists of, the largest first."""
        return sorted(self._components(), key=lambda each: -each.size)

    def _components(self) -> Iterator[Component]:
        for package in distributions(path=[str(self.packages)]):
            yield Component(package.name, package.version, sum(_sizes(package)))


def _make_environment(directory: Path, *arguments: str | Path) -> None:
    """Make an environment with the packages that arguments of `pip install` name."""
    subprocess.run([UV, "venv", "--quiet", "--clear", "--python", sys.executable, directory], check=True)
    command: list[str | Path] = [UV, "pip", "install", "--quiet", "--python", directory / "bin" / "python", *arguments]
    subprocess.run(command, check=True)


def _sizes(package: Distribution) -> Iterator[int]:
    for file in package.files or ():
        path = Path(str(file.locate()))
        if path.is_file():
            yield path.stat().st_size


def jar_component(jar: Path) -> dict[str, Any]:
    """Return the entry of a jar: by its Maven coordinates if it names them, otherwise by its file's name."""
    group, name, version = coordinates(jar)
    purl = f"pkg:maven/{group}/{name}@{version}" if group else f"pkg:generic/{name}@{version}"
    with jar.open("rb") as content:
        digest = hashlib.file_digest(content, "sha1").hexdigest()
    entry = {"type": "library", "name": name, "version": version, "purl": purl, "bom-ref": f"{purl}#{jar.name}"}
    # Maven's index finds a jar by this sum, also one that does not name its group.
    hashes = [{"alg": "SHA-1", "content": digest}]
    return {**entry, **({"group": group} if group else {}), "hashes": hashes}


def coordinates(jar: Path) -> tuple[str | None, str, str]:
    """Return group, name and version of a jar; the group is None if the jar does not name it."""
    match = _JAR.fullmatch(jar.name)
    name, version = (match["name"], match["version"]) if match else (jar.stem, "unknown")
    with zipfile.ZipFile(jar) as archive:
        for entry in archive.namelist():
            if entry.startswith("META-INF/maven/") and entry.endswith(f"/{name}/pom.properties"):
                return entry.split("/")[2], name, version
        with suppress(KeyError):
            vendor = _VENDOR.search(archive.read("META-INF/MANIFEST.MF").decode(errors="replace"))
            return vendor and vendor[1], name, version
    return None, name, version
