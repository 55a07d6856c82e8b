"""A release's files are the same for the same commit, and say what they consist of."""

from __future__ import annotations

import subprocess
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from release.artifacts import IMAGES, ROOT, chart_version, image_commands, package_chart, write_checksums
from release.installation import coordinates, jar_component


def _jar(directory: Path, name: str, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(directory / name, "w") as archive:
        for entry, content in files.items():
            archive.writestr(entry, content)
    return directory / name


def test_a_chart_is_packaged_the_same_each_time(tmp_path: Path) -> None:
    first = package_chart(tmp_path / "a", 1_700_000_000).read_bytes()

    assert package_chart(tmp_path / "b", 1_700_000_000).read_bytes() == first


def test_a_packaged_chart_holds_each_file_of_the_chart_below_its_name(tmp_path: Path) -> None:
    with tarfile.open(package_chart(tmp_path, 0)) as archive:
        names = set(archive.getnames())

    chart = ROOT / "charts" / "streamjob"
    assert names == {f"streamjob/{each.relative_to(chart)}" for each in chart.rglob("*") if each.is_file()}


def test_packages_chart_and_images_have_one_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((ROOT / "charts" / "streamjob" / "Chart.yaml").read_text())

    assert {version, chart["version"], chart["appVersion"]} == {chart_version()}


@pytest.mark.parametrize("builder", ["docker", "buildah"])
def test_each_image_is_built_from_its_target_and_saved(builder: str) -> None:
    commands = [" ".join(each) for each in image_commands(builder, Path("/out"), "1.0", {"BASE": "debian"})]

    for image in IMAGES:
        assert any(f"--target={image} --tag=streamjob-{image}:1.0" in each for each in commands)
        assert any(f"/out/streamjob-{image}-1.0.oci.tar" in each for each in commands)
    assert sum("--build-arg=BASE=debian" in each for each in commands) == len(IMAGES)


def test_the_checksums_are_checked_by_sha256sum(tmp_path: Path) -> None:
    (tmp_path / "chart").mkdir()
    (tmp_path / "chart" / "a.tgz").write_text("a")
    (tmp_path / "b").write_text("b")
    sums = write_checksums(tmp_path)

    assert [line.split("  ")[1] for line in sums.read_text().splitlines()] == ["b", "chart/a.tgz"]
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", sums.name], cwd=tmp_path, check=True)


@pytest.mark.parametrize(
    ("files", "group"),
    [
        ({"META-INF/maven/org.apache/client/pom.properties": ""}, "org.apache"),
        ({"META-INF/MANIFEST.MF": "Implementation-Vendor-Id: org.apache.spark\r\n"}, "org.apache.spark"),
        ({"META-INF/maven/org.shaded/inner/pom.properties": ""}, None),
    ],
)
def test_a_jar_is_listed_by_the_coordinates_that_it_names(
    tmp_path: Path, files: dict[str, str], group: str | None
) -> None:
    assert coordinates(_jar(tmp_path, "client-1.5.jar", files)) == (group, "client", "1.5")


def test_a_jar_without_coordinates_is_listed_by_its_name_and_found_by_its_sum(tmp_path: Path) -> None:
    entry = jar_component(_jar(tmp_path, "compress-lzf-1.2.0.jar", {"A.class": ""}))

    assert (entry["purl"], entry["name"], entry["version"]) == (
        "pkg:generic/compress-lzf@1.2.0",
        "compress-lzf",
        "1.2.0",
    )
    assert len(entry["hashes"][0]["content"]) == 40
