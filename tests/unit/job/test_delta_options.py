"""The options of the Delta sink, as a job's file gives them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from streamjob.job.connectors.delta import problems, storage_options

TABLE = {"path": "s3://bucket/t", "storage.AWS_REGION": "x", "storage.AWS_SECRET_ACCESS_KEY": "hunter2"}


def test_access_to_files_is_given_by_options_of_their_own() -> None:
    assert list(problems(TABLE)) == []
    assert storage_options(TABLE) == {"AWS_REGION": "x", "AWS_SECRET_ACCESS_KEY": "hunter2"}


@pytest.mark.parametrize(
    ("options", "what", "fix"),
    [
        ({}, "lacks the option 'path'", "add path: a directory, or s3://bucket/path"),
        ({"path": "t", "mode": "upsert"}, "has mode upsert and no key", "key: id"),
        ({"path": "t", "key": "id"}, "has a key, and mode append, which has no use for one", "say mode: upsert"),
        (
            {"path": "t", "storage.AWS_S3_ALLOW_UNSAFE_RENAME": "true"},
            "has the option 'storage.AWS_S3_ALLOW_UNSAFE_RENAME', with which two commits can overwrite each other",
            "leave it out",
        ),
        ({"path": "t", "pth": "t"}, "has no option 'pth'", "did you mean 'path'?"),
        ({"Path": "t", "mergeSchema": "true"}, "has no option 'mergeSchema'", "the options are key, mode, path"),
    ],
)
def test_what_cannot_work_is_told_with_the_fix(options: Mapping[str, str], what: str, fix: str) -> None:
    ((said, advice, _),) = problems(options)

    assert said == what
    assert fix in advice
