"""Images: what builds them, and which native libraries they keep."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from release.artifacts import NoImageBuilder, image_builder
from release.slim import slim_jar, stays


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


@pytest.mark.parametrize(
    ("entry", "machine", "kept"),
    [
        ("librocksdbjni-linux64.so", "x86_64", True),
        ("librocksdbjni-linux64-musl.so", "x86_64", False),
        ("librocksdbjni-linux32.so", "x86_64", False),
        ("librocksdbjni-linux-aarch64.so", "x86_64", False),
        ("librocksdbjni-linux-aarch64.so", "aarch64", True),
        ("librocksdbjni-osx-arm64.jnilib", "aarch64", False),
        ("linux/amd64/libzstd-jni-1.5.7-7.so", "x86_64", True),
        ("freebsd/amd64/libzstd-jni-1.5.7-7.so", "x86_64", False),
        ("win/amd64/libzstd-jni-1.5.7-7.dll", "x86_64", False),
        ("darwin/aarch64/libzstd-jni-1.5.7-7.dylib", "aarch64", False),
        ("org/xerial/snappy/native/Linux/x86_64/libsnappyjava.so", "x86_64", True),
        ("org/xerial/snappy/native/Linux/x86_64-musl/libsnappyjava.so", "x86_64", False),
        ("org/xerial/snappy/native/Linux/android-aarch64/libsnappyjava.so", "aarch64", False),
        ("org/xerial/snappy/native/SunOS/x86_64/libsnappyjava.so", "x86_64", False),
        ("net/jpountz/util/linux/amd64/liblz4-java.so", "x86_64", True),
        ("org/rocksdb/RocksDB.class", "x86_64", True),
    ],
)
def test_an_entry_stays_if_its_platform_can_load_it(entry: str, machine: str, kept: bool) -> None:
    assert stays(entry, machine) is kept


def test_a_slim_jar_keeps_its_classes(tmp_path: Path) -> None:
    jar = tmp_path / "a.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("A.class", "code")
        archive.writestr("win/amd64/a.dll", "native")

    slim_jar(jar, "x86_64")

    with zipfile.ZipFile(jar) as archive:
        assert {each: archive.read(each) for each in archive.namelist()} == {"A.class": b"code"}
    assert list(tmp_path.iterdir()) == [jar]
