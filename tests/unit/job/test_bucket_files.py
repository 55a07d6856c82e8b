"""The options of a file sink whose path is in a bucket."""

from __future__ import annotations

import pytest

from streamjob.job.connectors.bucket_files import COMPRESSIONS, compression_of, path_problem, problems


@pytest.mark.parametrize("path", ["s3://bucket", "s3://bucket/", "s3://bucket/a/b=c/", "s3://${env:BUCKET}/out"])
def test_a_path_in_a_bucket_is_a_place_for_files(path: str) -> None:
    assert path_problem("parquet", path) is None


@pytest.mark.parametrize(
    ("path", "what", "fix"),
    [
        ("s3a://bucket/x", "Hadoop's scheme", "write it as s3://bucket/x"),
        (
            "gs://bucket/x",
            "takes a directory that can rename files or s3://bucket/path, and not gs:",
            "name a directory",
        ),
        ("s3:///x", "is no place in a bucket", "write s3://bucket/path"),
        ("s3://bucket/a//b", "is no place in a bucket", "no empty part"),
        ("s3://bucket/../b", "is no place in a bucket", "'..'"),
        (f"s3://bucket/{'x' * 600}", "is no place in a bucket", "at most 512 bytes"),
    ],
)
def test_any_other_path_is_refused_with_the_reason(path: str, what: str, fix: str) -> None:
    problem = path_problem("json", path)

    assert problem is not None
    assert what in problem[0]
    assert fix in problem[1]


def test_a_format_that_only_spark_writes_is_refused() -> None:
    problem = path_problem("orc", "s3://bucket/x")

    assert problem is not None
    assert "orc files, which cannot go to a bucket" in problem[0]
    assert "csv, json, parquet, text" in problem[1]


@pytest.mark.parametrize("file_format", sorted(COMPRESSIONS))
def test_the_first_compression_is_the_default_and_names_are_compared_like_sparks(file_format: str) -> None:
    assert compression_of(file_format, {}) == COMPRESSIONS[file_format][0]
    assert compression_of(file_format, {"Compression": "GZIP"}) == "gzip"
    assert compression_of(file_format, {"compression": "uncompressed"}) == "none"
    assert list(problems(file_format, {"path": "s3://bucket/x", "compression": "gzip"})) == []


def test_options_that_would_have_no_effect_are_refused_together() -> None:
    options = {"path": "s3://b/x", "nulValue": "-", "compression": "zip", "encoding": "UTF-16", "SEP": ";"}

    assert [each[:2] for each in problems("csv", options)] == [
        ("has no option 'nulValue' for csv files in a bucket", "did you mean 'nullValue'?"),
        ("cannot write compression 'zip'", "did you mean 'gzip'?"),
        ("cannot write encoding 'UTF-16' into a bucket", "leave it out: files are written in UTF-8"),
    ]


def test_a_compression_from_the_environment_is_checked_once_it_is_known() -> None:
    assert list(problems("json", {"compression": "${env:CODEC}"})) == []
