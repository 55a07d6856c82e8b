"""The files of a release: Python packages, chart and images. The same commit gives the same packages and chart."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
CHART = ROOT / "charts" / "streamjob"
UV = ROOT / ".venv" / "bin" / "uv"
CHECKSUMS = "SHA256SUMS"
IMAGES = ("controller", "runtime")
"""The targets of the Dockerfile that users run."""


class NoImageBuilder(Exception):
    """There is no program that builds images."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__(
            f"no program builds the images: put {' or '.join(names)} on the PATH, or call make dist ARGS=--no-images"
        )


def commit_time() -> int:
    """Return the time of the last commit, in seconds since 1970: that of all files in the packages."""
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def chart_version() -> str:
    """Return the chart's version."""
    return str(yaml.safe_load((CHART / "Chart.yaml").read_text())["version"])


def build_packages(target: Path, time: int) -> list[Path]:
    """Build the wheel and the source distribution, with the build requirements of the lock.

    Args:
        target: directory for them.
        time: of the files in them, in seconds since 1970.
    """
    locked = ("--require-hashes", "--build-constraints", ROOT / "requirements.lock")
    command: list[str | Path] = [UV, "build", "--quiet", *locked, "--out-dir", target, ROOT]
    subprocess.run(command, env={**os.environ, "SOURCE_DATE_EPOCH": str(time)}, check=True)
    (target / ".gitignore").unlink(missing_ok=True)
    return sorted(target.iterdir())


def package_chart(target: Path, time: int) -> Path:
    """Write the chart as `helm package` does, but reproducibly, and return its file.

    Args:
        target: directory for it.
        time: of the files in it, in seconds since 1970.
    """
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for file in sorted(each for each in CHART.rglob("*") if each.is_file()):
            entry = tarfile.TarInfo(f"{CHART.name}/{file.relative_to(CHART).as_posix()}")
            entry.size, entry.mtime, entry.mode = file.stat().st_size, time, 0o644
            with file.open("rb") as content:
                archive.addfile(entry, content)
    target.mkdir(parents=True, exist_ok=True)
    packaged = target / f"{CHART.name}-{chart_version()}.tgz"
    with packaged.open("wb") as out, gzip.GzipFile(filename="", mode="wb", fileobj=out, mtime=time) as archive_file:
        archive_file.write(plain.getvalue())
    return packaged


def image_commands(builder: str, target: Path, version: str, settings: Mapping[str, str]) -> Iterator[list[str]]:
    """Yield the commands that build the images and save each as an OCI archive.

    Args:
        builder: `docker` or `buildah`.
        target: directory for the archives.
        version: the images' tag.
        settings: build arguments, such as `BASE`.
    """
    arguments = [f"--build-arg={name}={value}" for name, value in settings.items()]
    for image in IMAGES:
        tag = f"streamjob-{image}:{version}"
        archive = target / f"streamjob-{image}-{version}.oci.tar"
        if builder == "docker":
            output = f"--output=type=oci,dest={archive}"
            yield ["docker", "buildx", "build", f"--target={image}", f"--tag={tag}", output, *arguments, str(ROOT)]
        else:
            yield ["buildah", "build", "--layers", f"--target={image}", f"--tag={tag}", *arguments, str(ROOT)]
            yield ["buildah", "push", "--quiet", f"localhost/{tag}", f"oci-archive:{archive}:{tag}"]


def image_builder() -> str:
    """Return the program that builds images: Docker with Buildx, or Buildah.

    Raises:
        NoImageBuilder: there is none.
    """
    programs = {"docker": ["docker", "buildx", "version"], "buildah": ["buildah", "--version"]}
    for name, command in programs.items():
        if shutil.which(name) and subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return name
    raise NoImageBuilder(tuple(programs))


def write_checksums(directory: Path) -> Path:
    """Write the SHA-256 of every file below a directory, as `sha256sum --check` reads it, and return that file."""
    sums = directory / CHECKSUMS
    sums.unlink(missing_ok=True)
    lines = []
    for file in sorted(each for each in directory.rglob("*") if each.is_file()):
        with file.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        lines.append(f"{digest}  {file.relative_to(directory).as_posix()}\n")
    sums.write_text("".join(lines))
    return sums
