"""The example of `docs/how-to/write-a-store.md`: objects as rows of a SQLite database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import BinaryIO

from streamjob.errors import InvalidInput
from streamjob.ids import Key
from streamjob.store import ObjectInfo, ObjectMissing, StoreError, StoreFull, StoreUnavailable
from streamjob.store.files import write_whole
from streamjob.store.names import check_key, check_prefix


def open_store(uri: str, environment: Mapping[str, str]) -> SqliteStore:
    """Open `sqlite://name/prefix/`: the objects below the prefix in the database name.db."""
    name, _, prefix = uri.removeprefix("sqlite://").partition("/")
    if "SQLITE_STORES" not in environment:
        raise InvalidInput("SQLITE_STORES is not set", "set it to the directory of the databases")
    return SqliteStore(Path(environment["SQLITE_STORES"]) / f"{name}.db", prefix)


class SqliteStore:
    """The objects below `prefix` in a database."""

    def __init__(self, database: Path, prefix: str) -> None:
        self.uri = f"sqlite://{database.stem}/{prefix}"
        self._database = database
        self._prefix = prefix

    def get(self, key: Key) -> bytes:
        return self._read(key, "content")

    def get_range(self, key: Key, offset: int, length: int) -> bytes:
        part = self._read(key, "substr(content, ?, ?)", offset + 1, length)
        if len(part) != length:
            raise StoreError(f"{self.uri}{key} ends before byte {offset + length}")
        return part

    def download(self, key: Key, target: Path) -> None:
        content = self.get(key)

        def fill(file: BinaryIO) -> None:
            file.write(content)

        write_whole(target, fill)

    def put(self, key: Key, content: bytes | Path) -> None:
        data = content if isinstance(content, bytes) else content.read_bytes()
        with self._transaction() as connection:
            connection.execute("REPLACE INTO objects VALUES (?, ?)", [self._full(key), data])

    def put_if_absent(self, key: Key, content: bytes) -> bool:
        with self._transaction() as connection:
            insert = "INSERT INTO objects VALUES (?, ?) ON CONFLICT DO NOTHING"
            return connection.execute(insert, [self._full(key), content]).rowcount == 1

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        first = self._prefix + check_prefix(prefix)
        after = self._prefix + start_after
        page = "SELECT key, length(content) FROM objects WHERE key > ? AND key >= ? AND key < ? ORDER BY key LIMIT 1000"
        while True:
            with self._transaction() as connection:
                rows = connection.execute(page, [after, first, first + "\U0010ffff"]).fetchall()
            if not rows:
                return
            for key, size in rows:
                yield ObjectInfo(Key(key.removeprefix(self._prefix)), size)
            after = rows[-1][0]

    def delete(self, keys: Iterable[Key]) -> None:
        with self._transaction() as connection:
            connection.executemany("DELETE FROM objects WHERE key = ?", [[self._full(key)] for key in keys])

    def close(self) -> None:
        pass

    def _full(self, key: Key) -> str:
        return self._prefix + check_key(key)

    def _read(self, key: Key, expression: str, *values: int) -> bytes:
        with self._transaction() as connection:
            query = f"SELECT {expression} FROM objects WHERE key = ?"
            row = connection.execute(query, [*values, self._full(key)]).fetchone()
        if row is None:
            raise ObjectMissing(f"{self.uri}{key} does not exist")
        return bytes(row[0] or b"")

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self._database, timeout=30)) as connection, connection:
                connection.execute("CREATE TABLE IF NOT EXISTS objects (key TEXT PRIMARY KEY, content BLOB)")
                yield connection
        except sqlite3.Error as error:
            full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
            raise (StoreFull if full else StoreUnavailable)(f"cannot use {self._database}: {error}") from error
