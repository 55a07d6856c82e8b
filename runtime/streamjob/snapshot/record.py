"""Records of a job's log: claims of ownership and completions."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from streamjob.ids import Attempt, CheckpointId, Epoch, LogSeq, Owner

LOG_FORMAT_VERSION: Literal[2] = 2


class RecordKind(StrEnum):
    """What a record says."""

    CLAIM = "claim"
    """A coordinator took the job over; restores happen from the highest completion below it."""
    CHECKPOINT = "checkpoint"
    SAVEPOINT = "savepoint"
    FINAL = "final"
    """All work is done; nothing follows."""


COMPLETIONS = frozenset({RecordKind.CHECKPOINT, RecordKind.SAVEPOINT, RecordKind.FINAL})


class LogRecord(BaseModel):
    """One immutable record of the log; created with put-if-absent, so a number has one owner for ever.

    `manifest` is a key relative to the job's root, or an absolute URI outside it; `manifest_size` are its bytes, and
    `manifest_sha256` is their hash. `time` is in seconds since 1970. `job` and `namespace` say whose log this is, so
    that a location that another job owns is noticed. `last_id` is the highest id up to this record, 0 before the first:
    ids above it are free. `oldest` is the number of the oldest record that the log still
    needs: from there up to this record none may be missing. `previous` is the SHA-256 of the stored bytes of the record
    below, None for record 0. Version 1 has neither these three, nor size and hash of the manifest, nor a checksum.
    """

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, extra="ignore")

    format_version: Literal[1, 2] = LOG_FORMAT_VERSION
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
        """Whether the record has all that a completion needs, as far as its version goes."""
        named = self.id is not None and self.manifest is not None
        return named and (self.format_version == 1 or None not in (self.manifest_size, self.manifest_sha256))

    def stored_fields(self) -> dict[str, Any]:
        """Return the fields as they are stored, as JSON values; a claim has none of a manifest."""
        fields = self.model_dump(mode="json", by_alias=True)
        if self.completes:
            return fields
        return {name: value for name, value in fields.items() if name != "id" and not name.startswith("manifest")}
