"""Builds the images and gives them to the cluster: `python -m e2e.harness.images` prints their names.

Alternatively, `E2E_RUNTIME_IMAGE` and `E2E_CONTROLLER_IMAGE` name images that the cluster has or can pull. The tag of a
built image identifies its sources, so it is built and loaded once.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from e2e.harness.cluster import ROOT, find_kubeconfig, local_cluster

TARGETS = ("runtime", "controller")
_BASE = "localhost/python:3.11-slim-bookworm"
_INPUTS = ("Dockerfile", ".dockerignore", "pyproject.toml", "requirements.lock", "requirements.uv.lock")
_FOLDERS = ("runtime", "operator")


class NoImages(Exception):
    """The images cannot be built for this cluster."""


@dataclass(frozen=True, slots=True)
class Images:
    """The names of the images."""

    runtime: str
    controller: str


def prepare_images() -> Images:
    """Return images that the cluster has; they are built and loaded if need be.

    Raises:
        NoImages: no way to do that is known for this cluster.
    """
    return Images(*(_given(target) or _built(target) for target in TARGETS))


def _given(target: str) -> str | None:
    return os.environ.get(f"E2E_{target.upper()}_IMAGE")


def _built(target: str) -> str:
    name = f"localhost/streamjob-{target}:e2e-{_digest()}"
    directory = local_cluster()
    if directory is not None and find_kubeconfig() == _kubeconfig_of_local():
        _build_locally(directory, target, name)
    elif shutil.which("docker") and shutil.which("kind") and (kind := _kind_cluster()):
        subprocess.run(["docker", "build", "--target", target, "--tag", name, ROOT], check=True)
        subprocess.run(["kind", "load", "docker-image", "--name", kind, name], check=True)
    else:
        raise NoImages("E2E_RUNTIME_IMAGE and E2E_CONTROLLER_IMAGE must name images that this cluster can pull")
    return name


def _build_locally(directory: Path, target: str, name: str) -> None:
    # The node's images go with the cluster's state, and so does the mark that says that they are there.
    mark = _kubeconfig_of_local().parent / f"loaded-{name.replace('/', '_')}"
    if mark.exists():
        return
    if not shutil.which("buildah") or subprocess.run(["buildah", "inspect", _BASE], capture_output=True).returncode:
        subprocess.run([directory / "base", _BASE], check=True, stdout=sys.stderr)
    with tempfile.TemporaryDirectory() as scratch:
        archive = Path(scratch) / "image.tar"
        options = ["--layers", "--target", target, "--build-arg", f"BASE={_BASE}"]
        subprocess.run([directory / "image", ROOT, name, archive, *options], check=True, stdout=sys.stderr)
        subprocess.run([directory / "load", archive], check=True, stdout=sys.stderr)
    mark.touch()


def _kubeconfig_of_local() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("TEST_CLUSTER_DIR") or cache / "test-cluster").resolve() / "kubeconfig"


def _kind_cluster() -> str | None:
    done = subprocess.run(["kubectl", "config", "current-context"], capture_output=True, text=True, check=True)
    context = done.stdout.strip()
    return context.removeprefix("kind-") if context.startswith("kind-") else None


def _digest() -> str:
    """Return what the images are made of, in twelve digits."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *_INPUTS, *_FOLDERS]
    names = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    digest = hashlib.sha256()
    for name in sorted(filter(None, names)):
        if (ROOT / name).is_file():
            digest.update(f"{name}\0".encode() + hashlib.sha256((ROOT / name).read_bytes()).digest())
    return digest.hexdigest()[:12]


if __name__ == "__main__":
    images = prepare_images()
    print(images.runtime, images.controller, sep="\n")  # noqa: T201
