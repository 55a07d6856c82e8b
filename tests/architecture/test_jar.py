import shutil
from pathlib import Path
from zipfile import ZipFile

import pytest

from streamjob_runtime.spark.jvm import JAR, SOURCES
from streamjob_runtime.spark.jvm.build import SOURCE_HASH_ENTRY, build, source_hash


def test_the_jar_was_built_from_the_java_sources_beside_it() -> None:
    with ZipFile(JAR) as jar:
        built_from = jar.read(SOURCE_HASH_ENTRY).decode()

    assert built_from == source_hash(), "run `python -m streamjob_runtime.spark.jvm.build`"


def test_the_jar_holds_a_class_for_every_java_source() -> None:
    with ZipFile(JAR) as jar:
        classes = set(jar.namelist())

    assert {f"{each.relative_to(SOURCES).with_suffix('')}.class" for each in SOURCES.rglob("*.java")} <= classes


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("javac") is None, reason="needs javac")
def test_building_again_gives_the_same_jar(tmp_path: Path) -> None:
    build(tmp_path / "again.jar")

    assert (tmp_path / "again.jar").read_bytes() == JAR.read_bytes()
