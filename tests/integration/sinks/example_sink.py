"""The example of `docs/how-to/write-a-sink.md`: rows into a SQLite table, exactly once."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from uuid import uuid4

from pydantic import JsonValue
from pyspark.sql import DataFrame
from pyspark.sql.functions import struct, to_json

from streamjob.ids import BatchId, CheckpointId
from streamjob.sink import SinkContext, Staged, StagedRowsGone


class SqliteSink:
    """Inserts rows as JSON into the table `rows` of the database at option `path`."""

    def open(self, context: SinkContext) -> None:
        self.epoch = context.epoch
        self.database = context.options["path"]
        with closing(sqlite3.connect(self.database)) as connection, connection:
            connection.execute("CREATE TABLE IF NOT EXISTS rows (row TEXT)")
            connection.execute("CREATE TABLE IF NOT EXISTS staged (epoch INT, batch TEXT, row TEXT)")
            connection.execute("CREATE TABLE IF NOT EXISTS published (batch TEXT PRIMARY KEY)")

    def stage(self, batch: DataFrame, batch_id: BatchId) -> Staged:
        name = uuid4().hex  # the same batch may be staged again, in another epoch
        rows = [(self.epoch, name, row) for (row,) in batch.select(to_json(struct("*"))).collect()]
        with closing(sqlite3.connect(self.database)) as connection, connection:
            connection.executemany("INSERT INTO staged VALUES (?, ?, ?)", rows)
        return Staged(name if rows else None, len(rows))

    def commit(self, checkpoint: CheckpointId, committables: Sequence[JsonValue]) -> None:
        with closing(sqlite3.connect(self.database)) as connection, connection:
            connection.execute("BEGIN IMMEDIATE")  # the rows and the record of their publication
            for name in committables:
                if not connection.execute("INSERT OR IGNORE INTO published VALUES (?)", [name]).rowcount:
                    continue  # published before
                if not connection.execute("INSERT INTO rows SELECT row FROM staged WHERE batch = ?", [name]).rowcount:
                    raise StagedRowsGone(f"rows of checkpoint {checkpoint} are not in {self.database}", "bring it back")
                connection.execute("DELETE FROM staged WHERE batch = ?", [name])

    def abort(self) -> None:
        with closing(sqlite3.connect(self.database)) as connection, connection:
            connection.execute("DELETE FROM staged WHERE epoch < ?", [self.epoch])

    def close(self) -> None:
        pass
