"""Records of a job's log: claims of ownership and completions."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from streamjob.ids import Attempt, CheckpointId, Epoch, LogSeq, Owner

LOG_FORMAT_VERSION: Literal[1] = 1


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

    `manifest` is a key relative to the job's root, or an absolute URI outside it. `time` is in seconds since 1970.
    `job` and `namespace` say whose log this is, so that a location that another job owns is noticed.
    """

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, extra="ignore")

    format_version: Literal[1] = LOG_FORMAT_VERSION
    seq: LogSeq
    kind: RecordKind
    epoch: Epoch
    owner: Owner
    attempt: Attempt
    id: CheckpointId | None = None
    manifest: str | None = None
    time: float
    job: str = Field(default="")
    namespace: str = Field(default="")

    @property
    def completes(self) -> bool:
        """Whether the record completes a checkpoint, savepoint or the job."""
        return self.kind in COMPLETIONS
