"""The example of `docs/how-to/write-a-sink.md`: rows into a SQLite table, exactly once."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing

from pydantic import JsonValue
from pyspark.sql import DataFrame
from pyspark.sql.functions import struct, to_json

from streamjob.ids import BatchId, CheckpointId
from streamjob.sink import SinkContext, Staged


class SqliteSink:
    """Inserts rows as JSON into the table `rows` of the database at option `path`."""

    def open(self, context: SinkContext) -> None:
        self.epoch = context.epoch
        self.database = context.options["path"]
        with closing(sqlite3.connect(self.database)) as connection, connection:
            connection.execute("CREATE TABLE IF NOT EXISTS rows (row TEXT)")
            connection.execute("CREATE TABLE IF NOT EXISTS staged (epoch INT, batch INT, row TEXT)")

    def stage(self, batch: DataFrame, batch_id: BatchId) -> Staged:
        rows = [(self.epoch, batch_id, row) for (row,) in batch.select(to_json(struct("*"))).collect()]
        with closing(sqlite3.connect(self.database)) as connection, connection:
            connection.executemany("INSERT INTO staged VALUES (?, ?, ?)", rows)
        committable: JsonValue = {"epoch": self.epoch, "batch": batch_id}
        return Staged(committable if rows else None, len(rows))

    def commit(self, checkpoint: CheckpointId, committables: Sequence[JsonValue]) -> None:
        covered = json.dumps(committables)
        below = "(SELECT value ->> 'epoch', value ->> 'batch' FROM json_each(?))"
        with closing(sqlite3.connect(self.database)) as connection, connection:
            connection.execute("BEGIN IMMEDIATE")  # what is published is no longer staged, in one transaction
            connection.execute(f"INSERT INTO rows SELECT row FROM staged WHERE (epoch, batch) IN {below}", [covered])
            connection.execute(f"DELETE FROM staged WHERE (epoch, batch) IN {below}", [covered])

    def abort(self) -> None:
        with closing(sqlite3.connect(self.database)) as connection, connection:
            connection.execute("DELETE FROM staged WHERE epoch < ?", [self.epoch])

    def close(self) -> None:
        pass
