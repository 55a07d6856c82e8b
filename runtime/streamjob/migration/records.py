"""The record of a migration, which the job's checkpoints keep from then on."""

from __future__ import annotations

from typing import Literal

from streamjob.ids import ChainUid, OperatorUid
from streamjob.snapshot.manifest import Part


class MigrationRecord(Part):
    """The effect of a migration on the state of an operator, kept so that an auditor sees why the state changed.

    `snapshot` is the one that the state comes from; `operators` may have several if either may own the state.
    `before` and `after` are fingerprints of the forms. The checksums are sums of the hashes of all rows as stored,
    modulo 2^64; the one after was compared with what Spark reads back. `migrated` is in seconds since 1970.
    """

    snapshot: str
    chain: ChainUid
    operators: tuple[OperatorUid, ...]
    state: str
    how: Literal["inferred", "sql"]
    said: tuple[str, ...]
    gaps: tuple[str, ...] = ()
    sql: str | None = None
    before: str
    after: str
    rows_before: int
    rows_after: int
    checksum_before: int
    checksum_after: int
    seconds: float
    migrated: float
