"""The stores of the product keep the contract of `Store`."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.servers.s3 import S3Server

from streamjob.store import LocalStore, Store
from streamjob.store.s3 import S3Store
from streamjob.store.s3_connection import S3Connection, S3Settings
from streamjob.testing.store_kit import StoreConformance


class TestLocalStore(StoreConformance):
    def make_store(self, place: Path, prefix: str) -> Store:
        return LocalStore(place / prefix)


@pytest.mark.server
class TestS3Store(StoreConformance):
    @pytest.fixture(autouse=True)
    def _server(self, s3_server: S3Server, s3_credentials: None) -> Iterator[None]:
        self.bucket = s3_server.bucket
        self.suite = f"suite/{uuid.uuid4().hex}"
        self.connection = S3Connection(S3Settings(endpoint=s3_server.endpoint, part_size=5 << 20))
        yield
        self.connection.close()

    def make_store(self, place: Path, prefix: str) -> Store:
        return S3Store(self.connection, self.bucket, f"{self.suite}/{prefix}")

    @pytest.mark.usefixtures("decides_races")
    def test_of_racing_creators_one_wins_and_its_content_stays(self, store: Store) -> None:
        super().test_of_racing_creators_one_wins_and_its_content_stays(store)
