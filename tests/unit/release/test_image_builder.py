"""Images are built by Docker if it has Buildx, and by Buildah otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest
from release.artifacts import NoImageBuilder, image_builder


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that is the whole PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def put(directory: Path, name: str, code: int) -> None:
    """Write a program that ends with a code."""
    (directory / name).write_text(f"#!/bin/sh\nexit {code}\n")
    (directory / name).chmod(0o755)


@pytest.mark.parametrize(("docker", "builder"), [(0, "docker"), (1, "buildah")])
def test_docker_builds_images_only_with_buildx(programs: Path, docker: int, builder: str) -> None:
    put(programs, "docker", docker)
    put(programs, "buildah", 0)

    assert image_builder() == builder


def test_without_a_program_that_works_none_is_built(programs: Path) -> None:
    put(programs, "docker", 1)

    with pytest.raises(NoImageBuilder):
        image_builder()
