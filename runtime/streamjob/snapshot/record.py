"""Records of a job's log: claims of ownership and completions."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from streamjob.ids import Attempt, CheckpointId, Epoch, LogSeq, Owner
from streamjob.snapshot.format_versions import FORMAT_VERSION, FormatVersion


class RecordKind(StrEnum):
    """The kinds of log records."""

    CLAIM = "claim"
    """A coordinator has taken over the job; it restores from the highest completion below this record."""
    CHECKPOINT = "checkpoint"
    SAVEPOINT = "savepoint"
    FINAL = "final"
    """All work is done; no record follows."""


COMPLETIONS = frozenset({RecordKind.CHECKPOINT, RecordKind.SAVEPOINT, RecordKind.FINAL})


class LogRecord(BaseModel):
    """One immutable log record. It is created by put-if-absent, so each number has one owner for ever.

    `manifest` is a key relative to the job's root, or an absolute URI outside it. `manifest_size` is its size in bytes
    and `manifest_sha256` its hash. `time` is in seconds since 1970. `job` and `namespace` name the log's job, so that a
    location that belongs to another job is noticed. `last_id` is the highest id up to this record, 0 before the first;
    higher ids are free. `oldest` is the number of the oldest record that the log still needs; no record from there to
    this one may be missing. `previous` is the SHA-256 of the stored bytes of the record below, None for record 0.
    Version 1 lacks these three, size and hash of the manifest, and the checksum.
    """

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, extra="ignore")

    format_version: FormatVersion = FORMAT_VERSION
    seq: LogSeq
    kind: RecordKind
    epoch: Epoch
    owner: Owner
    attempt: Attempt
    id: CheckpointId | None = None
    manifest: str | None = None
    manifest_size: int | None = None
    manifest_sha256: str | None = None
    time: float
    job: str = Field(default="")
    namespace: str = Field(default="")
    last_id: CheckpointId | None = None
    oldest: LogSeq | None = None
    previous: str | None = None

    @property
    def completes(self) -> bool:
        """Whether the record completes a checkpoint, savepoint or the job."""
        return self.kind in COMPLETIONS

    @property
    def names_a_manifest(self) -> bool:
        """Whether the record has all fields of a completion that its version requires."""
        named = self.id is not None and self.manifest is not None
        return named and (self.format_version == 1 or None not in (self.manifest_size, self.manifest_sha256))

    def stored_fields(self) -> dict[str, Any]:
        """Return the stored fields as JSON values; a claim has no manifest fields."""
        fields = self.model_dump(mode="json", by_alias=True)
        if self.completes:
            return fields
        return {name: value for name, value in fields.items() if name != "id" and not name.startswith("manifest")}
