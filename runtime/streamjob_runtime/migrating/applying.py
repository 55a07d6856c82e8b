"""Writes the new state of operators into a restored checkpoint, and verifies what Spark reads back."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING

from streamjob.comparison.rewrite_checks import Contents
from streamjob.errors import CannotRestore
from streamjob.ids import ChainUid
from streamjob.migration.records import MigrationRecord
from streamjob.migration.state import KeptState
from streamjob_runtime.migrating.stored_rows import contents, stored_rows, total
from streamjob_runtime.migrating.transforming import OperatorMigration, transform
from streamjob_runtime.migrating.watching import MigrationWatch, Step
from streamjob_runtime.spark.checkpoint_dir.logs import read_commit
from streamjob_runtime.spark.checkpoint_dir.new_state import put_state
from streamjob_runtime.spark.gateway import java_errors, java_frame, java_session, our_java, thrown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Stored = dict[tuple[str, str, int], Contents]
"""What state has, by store, column family and partition; what has no rows is left out."""

_UNDO = (
    "undo the change, or give the operator another uid, and its state up with --allow-non-restored-state; the snapshot "
    "is as it was"
)
_STORED = "partition INT, key_bytes BINARY, value_bytes BINARY, column_family_name STRING"

log = logging.getLogger("streamjob")


class StateNotMigrated(CannotRestore):
    """Spark cannot compute or write the new state of an operator."""


class KeysMerged(CannotRestore):
    """Several rows of the former state have one key in the new state."""


class StateMigratedWrongly(CannotRestore):
    """Spark reads other state back than a migration wrote."""


def migrate(each: OperatorMigration, watch: MigrationWatch, snapshot: str, chain: ChainUid) -> MigrationRecord:
    """Replace the state of an operator of a restored checkpoint with what its migration makes of it; return the record.

    The new state is a snapshot of the batch's version under fresh ids. It is written beside the checkpoint and put in
    place as a whole. The checkpoint is local, so that an interrupted migration starts again from the snapshot.

    Args:
        watch: is told of each step.
        snapshot: the URI of the snapshot that was restored, for the record.
        chain: the chain, for the record.

    Raises:
        MigrationQueryRefused: an author's query is not valid, or returns other columns.
        StateNotMigrated: Spark cannot compute or write the new state.
        KeysMerged: the new state has several rows for a key.
        StateMigratedWrongly: what Spark reads back differs from what was written.
    """
    log.warning("Migrating %s: %s", each.label, each.migration.in_words)
    partitions = len((read_commit(each.checkpoint, each.batch).state_ids or {})[each.number])
    try:
        watch.migrating(each, Step.READING)
        begun = time.monotonic()
        before = _read(each, each.before, partitions)
        watch.migrating(each, Step.WRITING)
        rows, written = transform(each), Stored()
        for store in _stores(each.after):
            written |= _write(each, store, rows, partitions)
        put_state(each.checkpoint, each.location, each.batch, each.number, each.described, partitions)
        watch.migrating(each, Step.VERIFYING)
        after = _read(each, each.after, partitions)
    except java_errors() as error:
        reason = str(thrown(error).getMessage()).partition("\n")[0]
        raise StateNotMigrated(f"Spark cannot migrate {each.label}: {reason}", _UNDO) from error
    was, now, seconds = total(before.values()), total(after.values()), time.monotonic() - begun
    if now.rows < total(written.values()).rows:
        raise KeysMerged(
            f"Several rows of {each.label} have one key after its migration: {_told(written)} were written, and "
            f"{now.rows} are there",
            "group the rows by their keys in the query under `migrate`, or undo the change; the snapshot is as it was",
        )
    if after != written:
        raise StateMigratedWrongly(
            f"{each.label} was migrated wrongly: {_told(written)} were written, and Spark reads {_told(after)}",
            _UNDO,
        )
    log.warning("Migrated %s: %d rows became %d, verified, in %.1f s", each.label, was.rows, now.rows, seconds)
    return MigrationRecord(
        snapshot=snapshot,
        chain=chain,
        operators=each.operators,
        state=each.after.operator,
        how="sql" if each.migration.sql else "inferred",
        said=each.migration.said,
        gaps=each.migration.gaps,
        sql=each.migration.query,
        before=each.before.fingerprint,
        after=each.after.fingerprint,
        rows_before=was.rows,
        rows_after=now.rows,
        checksum_before=was.checksum,
        checksum_after=now.checksum,
        seconds=round(seconds, 3),
        migrated=time.time(),
    )


def _stores(state: KeptState) -> list[str]:
    return list(dict.fromkeys(each.store for each in state.families))


def _read(each: OperatorMigration, state: KeptState, partitions: int) -> Stored:
    found = Stored()
    for store in _stores(state):
        rows = stored_rows(each.spark, each.location, each.number, store, each.batch)
        found |= {(store, *place): content for place, content in contents(rows, partitions).items()}
    return found


def _write(each: OperatorMigration, store: str, rows: Mapping[tuple[str, str], DataFrame], partitions: int) -> Stored:
    """Write a store; return what was written."""
    java, session, found = our_java(each.spark).StateRows, java_session(each.spark), Stored()
    place = (each.described.as_uri(), each.number, store)
    encoded = [
        java.encode(session, java_frame(frame), *place, family, partitions)
        for (of, family), frame in rows.items()
        if of == store
    ] or [java_frame(each.spark.createDataFrame([], _STORED))]
    whole, inside = reduce(lambda one, other: one.union(other), encoded), each.migration.keeps_places(store)
    for line in java.write(session, whole, *place, each.batch, partitions, inside):
        partition, count, checksum, family = line.split(" ", 3)
        found[store, family, int(partition)] = Contents(int(count), int(checksum), 0)
    return found


def _told(state: Stored) -> str:
    found = total(state.values())
    return f"{found.rows} rows with the checksum {found.checksum}, {found.misplaced} of them in the wrong partition"
