"""Iceberg tables for the tests of a session: the catalog in a real PostgreSQL, files in a directory or in a real S3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField, StringType
from tests.integration.sinks.databases import Database
from tests.servers.s3 import S3Server

NOTES = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "note", StringType()))


@dataclass(frozen=True)
class Lake:
    """A catalog and a warehouse.

    Args:
        database: holds the catalog.
        warehouse: a location.
        properties: what gives access to it.
    """

    database: Database
    warehouse: str
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def uri(self) -> str:
        """Where the catalog is, without the password."""
        server = self.database.server
        return f"{server.url(self.database.name)}?user={server.role}".replace("postgresql:", "postgresql+psycopg2:")

    @contextmanager
    def catalog(self) -> Iterator[SqlCatalog]:
        """Return the catalog; its connections are closed afterwards."""
        uri = f"{self.uri}&password={self.database.server.password}"
        catalog = SqlCatalog("default", uri=uri, warehouse=self.warehouse, **self.properties)
        try:
            yield catalog
        finally:
            catalog.engine.dispose()

    def make(
        self, table: str, schema: Schema = NOTES, spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC, **properties: str
    ) -> None:
        """Make a table."""
        with self.catalog() as catalog:
            catalog.create_namespace_if_not_exists(table.rpartition(".")[0])
            catalog.create_table(table, schema, partition_spec=spec, properties=properties)

    def options(self, table: str, *, password: str = "", **more: str) -> Mapping[str, str]:
        """Return the options of a sink that writes to a table."""
        return {
            "table": table,
            "catalog.type": "sql",
            "catalog.uri": f"{self.uri}&password={password or self.database.server.password}",
            "catalog.warehouse": self.warehouse,
            **{f"catalog.{name}": value for name, value in self.properties.items()},
            **more,
        }

    def load(self, table: str) -> Table:
        """Return a table as it is now, to look at."""
        with self.catalog() as catalog:
            return catalog.load_table(table)

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """Return a table's rows."""
        found = self.load(table).scan().to_arrow()
        return list(zip(*found.to_pydict().values(), strict=True)) if found.num_rows else []

    def counted(self, table: str) -> int:
        """Return a table's rows by its metadata alone."""
        return sum(file["record_count"] for file in self.load(table).inspect.files().to_pylist())

    def files(self, table: str) -> Sequence[str]:
        """Return all Parquet files below a table."""
        loaded = self.load(table)
        scheme, host, path = PyArrowFileIO.parse_location(loaded.location())
        io = loaded.io
        assert isinstance(io, PyArrowFileIO)
        selector = fs.FileSelector(path, allow_not_found=True, recursive=True)
        below = io.fs_by_scheme(scheme, host).get_file_info(selector)
        names = [each.path for each in below if each.type == fs.FileType.File]
        return sorted(f"{loaded.location()}{name.removeprefix(path)}" for name in names if name.endswith(".parquet"))

    def stray(self, table: str) -> Sequence[str]:
        """Return the Parquet files below a table that are part of none of its snapshots."""
        part = set(self.load(table).inspect.all_files().column("file_path").to_pylist())
        return [file for file in self.files(table) if file not in part]


@pytest.fixture
def lake(database: Database, tmp_path: Path) -> Lake:
    """Return a lake in a directory."""
    warehouse = tmp_path / "place" / "warehouse"
    warehouse.mkdir(parents=True)
    return Lake(database, f"file://{warehouse}")


OLD_CHECKSUMS = {
    "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
    "AWS_RESPONSE_CHECKSUM_VALIDATION": "when_required",
}


def access_to(server: S3Server) -> dict[str, str]:
    """Return the properties with which pyiceberg reaches a server's buckets."""
    return {
        "s3.endpoint": server.endpoint,
        "s3.access-key-id": server.access_key,
        "s3.secret-access-key": server.secret_key,
        "s3.region": server.region,
        "s3.connect-timeout": "30",
    }


@pytest.fixture
def bucket_lake(database: Database, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Return a lake in a bucket."""
    for name, value in OLD_CHECKSUMS.items():
        monkeypatch.setenv(name, value)
    access = access_to(s3_server)
    return Lake(database, f"s3://{s3_server.bucket}/{database.name}", access)
