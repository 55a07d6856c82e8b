"""Clients of S3 servers: the credentials that they sign with, and the parts that they share."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qs, urlsplit

import botocore.loaders
import pytest

from streamjob.store.s3_connection import S3Connection, S3Credentials, S3Settings

SERVER = S3Settings(endpoint="http://127.0.0.1:9000")


def signed_by(connection: S3Connection) -> str:
    """Return the access key that a client's requests carry."""
    url = connection.client.generate_presigned_url("get_object", Params={"Bucket": "b", "Key": "k"})
    (credential,) = parse_qs(urlsplit(url).query)["X-Amz-Credential"]
    return credential.partition("/")[0]


def test_each_connection_signs_with_the_credentials_that_it_was_handed() -> None:
    def connect(key: str) -> S3Connection:
        return S3Connection(SERVER, S3Credentials(key, "secret"))

    keys = [f"key{number}" for number in range(8)]
    with ThreadPoolExecutor(len(keys)) as threads:
        connections = list(threads.map(connect, keys))

    assert [signed_by(each) for each in connections] == keys


def test_credentials_that_are_handed_over_go_before_those_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "own")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "own")

    assert signed_by(S3Connection(SERVER, S3Credentials("handed", "secret"))) == "handed"
    assert signed_by(S3Connection(SERVER)) == "own"


def test_the_description_of_s3_is_read_once_for_all_handed_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    S3Connection(SERVER, S3Credentials("first", "secret"))
    read: list[str] = []
    load = botocore.loaders.JSONFileLoader.load_file

    def note(self: botocore.loaders.JSONFileLoader, file_path: str) -> object:
        read.append(file_path)
        return load(self, file_path)

    monkeypatch.setattr(botocore.loaders.JSONFileLoader, "load_file", note)
    S3Connection(SERVER, S3Credentials("second", "secret"))

    assert [path for path in read if "service-2" in path or "endpoints" in path] == []
