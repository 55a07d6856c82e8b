"""The record that a path belongs to one sink of one job, next to the sink's files."""

from __future__ import annotations

import json
from typing import Literal

from pydantic import BaseModel, ConfigDict

from streamjob.sink import SinkContext
from streamjob_runtime.sinks.committables import read_record
from streamjob_runtime.sinks.errors import PlaceTaken


class Owner(BaseModel):
    """The owner of a path."""

    model_config = ConfigDict(frozen=True)

    formatVersion: Literal[1, 2] = 1  # noqa: N815 - as it is stored
    job: str
    namespace: str
    sink: str

    def __str__(self) -> str:
        return f"sink {self.sink} of job {self.namespace}/{self.job}"


def owner_record(context: SinkContext, version: Literal[1, 2]) -> bytes:
    """Return the record by which a sink claims a path."""
    fields = {"formatVersion": version, "job": context.job, "namespace": context.namespace, "sink": context.uid}
    return json.dumps(fields, indent=1).encode()


def read_owner(content: bytes, context: SinkContext, *, name: str, place: str) -> Owner:
    """Return the owner of a path, which must be the sink that asks.

    Args:
        name: the record's name, relative to the path.
        place: the path's name in messages.

    Raises:
        UnreadableRecord: the record is damaged.
        PlaceTaken: another job or sink owns the path.
    """
    fix = f"restore it from a backup; or delete it if no other job or sink writes to {place}: the next start writes it"
    owner = read_record(Owner, content, name=name, sink=f"sink path {place}", fix=fix)
    if (owner.job, owner.namespace, owner.sink) != (context.job, context.namespace, context.uid):
        raise PlaceTaken(
            f"sink path {place}: belongs to {owner}, and sink {context.uid} of job {context.namespace}/{context.job} "
            "asks for it",
            f"give each sink its own path, or delete {name} there if the previous owner is gone for good",
        )
    return owner
