"""A source says where files go after reading, or when; what cannot be kept to is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from streamjob.job.connectors.file_source import bucket_and_prefix, problems
from streamjob.job.connectors.resolving import resolve_options
from streamjob.job.model.spec import SourceSpec
from streamjob_runtime.chain.sources.discovered_files import (
    ArchiveElsewhere,
    ArchiveNotApart,
    DiscoveredFiles,
    OnlyInBuckets,
)

NO_SPARK = cast(Any, None)


def source(options: dict[str, str], *, bounded: bool = False) -> SourceSpec:
    given = {"path": "s3://b/in", **options}
    return SourceSpec.model_validate(
        {"name": "in", "format": "json", "schema": "id INT", "bounded": bounded, "options": given}
    )


@pytest.mark.parametrize(
    "options",
    [
        {"archiveTo": "s3://other/done"},
        {"archiveTo": "${env:ARCHIVE}"},
        {"deleteAfter": "7d"},
        {"deleteAfter": "0s"},
        {"path": "/in", "deleteAfter": "0s"},
        {"path": "/in", "archiveTo": "/done"},
        {"path": "in", "archiveTo": "done"},
        {"path": "file:///in", "archiveTo": "/done"},
        {"path": "${env:IN}", "archiveTo": "/done"},
    ],
)
def test_one_way_to_go_is_accepted(options: dict[str, str]) -> None:
    assert list(problems(source(options))) == []


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"archiveTo": "s3://c/done", "deleteAfter": "0s"}, "has both"),
        ({"archiveTo": "/archive"}, "not in the same kind of place"),
        ({"path": "/in", "archiveTo": "s3://b/done"}, "not in the same kind of place"),
        ({"path": "/in", "archiveTo": "hdfs://name/done"}, "not in the same kind of place"),
        ({"deleteAfter": "-1s"}, "cannot be used"),
        ({"path": "/in", "forgetAfter": "1d"}, "is for a path in a bucket"),
        ({"path": "hdfs://name/in", "deleteAfter": "1d"}, "is for a path in a bucket or a local directory"),
    ],
)
def test_what_cannot_be_done_is_said(options: dict[str, str], what: str) -> None:
    (problem,) = problems(source(options))

    assert what in problem.what


@pytest.mark.parametrize("options", [{"archiveTo": "s3://c/done"}, {"deleteAfter": "1d"}])
def test_a_bounded_source_leaves_its_objects(options: dict[str, str]) -> None:
    (problem,) = problems(source(options, bounded=True))

    assert next(iter(options)) in problem.what
    assert "it ends before" in problem.what


@pytest.mark.parametrize(
    ("path", "archive"),
    [
        ("s3://b/in", "s3://b/in/done"),
        ("s3://b/in", "s3a://b/in/"),
        ("s3://b/lake/in", "s3://b/lake"),
        ("s3://b/in", "s3://b"),
        ("s3://b", "s3://b/done"),
        ("s3://b/*/in", "s3://b/done"),
    ],
)
def test_an_archive_that_the_source_may_list_is_refused(path: str, archive: str) -> None:
    options = {"path": path, "archiveTo": archive}

    with pytest.raises(ArchiveNotApart, match="overlap"):
        DiscoveredFiles.of(NO_SPARK, source(options), options)


@pytest.mark.parametrize("archive", ["s3://b/in-done", "s3://b/done/", "s3://other", "s3://other/in"])
def test_an_archive_beside_the_source_is_accepted(archive: str) -> None:
    options = {"path": "s3://b/in", "archiveTo": archive}

    assert DiscoveredFiles.of(NO_SPARK, source(options), options) is not None


@pytest.mark.parametrize(
    ("path", "archive"),
    [
        ("in", "in/done"),
        ("in", "in/../in/done"),
        ("in/*/x", "in/done"),
        ("in/x", "in"),
        ("link", "in/done"),
        ("in", "link/done"),
        ("in", "link"),
    ],
)
def test_a_directory_that_the_source_may_list_is_no_archive(tmp_path: Path, path: str, archive: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "link").symlink_to("in")
    options = {"path": f"{tmp_path}/{path}", "archiveTo": f"{tmp_path}/{archive}"}

    with pytest.raises(ArchiveNotApart, match="overlap"):
        DiscoveredFiles(NO_SPARK, source(options), options)


@pytest.mark.parametrize("archive", ["done", "in-done", "[done]/*", "in.json"])
def test_a_directory_beside_the_source_is_an_archive(tmp_path: Path, archive: str) -> None:
    options = {"path": f"{tmp_path}/in", "archiveTo": f"file://{tmp_path}/{archive}"}

    DiscoveredFiles(NO_SPARK, source(options), options)


def test_an_archive_where_files_cannot_be_renamed_to_is_refused() -> None:
    options = {"path": "/in", "archiveTo": "/proc/done"}

    with pytest.raises(ArchiveElsewhere, match="another file system"):
        DiscoveredFiles(NO_SPARK, source(options), options)


@pytest.mark.parametrize(("path", "archive"), [("/in", "s3://b/done"), ("s3://b/in", "/done")])
def test_an_archive_of_another_kind_is_refused_once_its_variable_is_known(path: str, archive: str) -> None:
    given = source({"path": path, "archiveTo": "${env:ARCHIVE}"})
    assert list(problems(given)) == []

    with pytest.raises(ArchiveElsewhere, match="Source 'in' has the option 'archiveTo', which is not in the same kind"):
        DiscoveredFiles(NO_SPARK, given, {"path": path, "archiveTo": archive})


def test_a_relative_archive_is_beside_the_job_file() -> None:
    given = source({"path": "in", "archiveTo": "done"})

    resolved = resolve_options(given, Path("/jobs"), {})

    assert (resolved["path"], resolved["archiveTo"]) == ("/jobs/in", "/jobs/done")


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("s3://b", ("b", "")),
        ("s3a://b/", ("b", "")),
        ("S3://b/x/y", ("b", "x/y/")),
        ("s3://b/x#?y/", ("b", "x#?y/")),
    ],
)
def test_a_path_has_a_bucket_and_what_keys_below_it_begin_with(path: str, parts: tuple[str, str]) -> None:
    assert bucket_and_prefix(path) == parts


def test_an_option_for_buckets_is_refused_once_the_variable_in_the_path_is_known_to_name_none() -> None:
    given = source({"path": "${env:IN}", "forgetAfter": "1d"})
    assert list(problems(given)) == []

    with pytest.raises(OnlyInBuckets, match="Source 'in' has forgetAfter, and its path /data is in no bucket"):
        DiscoveredFiles(NO_SPARK, given, {"path": "/data", "forgetAfter": "1d"})
