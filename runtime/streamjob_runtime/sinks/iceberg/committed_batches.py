"""The record of a sink's commits, which the table itself stores; pure.

For each life of the sink, one number records which batches are committed. The record is a table property, set by the
commit that adds the data files. The table's snapshots repeat it as long as they are retained.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from pydantic import BaseModel, ConfigDict

from streamjob_runtime.sinks.committables import read_record

LIVES_KEPT = 1000
PREFIX = "streamjob."


def property_of(identity: str) -> str:
    """Return the name of the table property for a sink's commits."""
    return f"{PREFIX}published.{identity}"


class _Stored(BaseModel):
    model_config = ConfigDict(extra="ignore")

    formatVersion: Literal[1]  # noqa: N815 - as it is stored
    published: dict[str, int]
    swept: list[str] = []


@dataclass(frozen=True, slots=True)
class CommittedBatches:
    """The batches that a sink has committed.

    Args:
        numbers: the number of the last committed batch of each life; the life that committed last is last.
        swept: lives whose directories contain committed files only.
    """

    numbers: Mapping[str, int] = field(default_factory=dict)
    swept: frozenset[str] = frozenset()

    def covers(self, life: str, number: int) -> bool:
        """Return whether a batch is committed."""
        return number <= self.numbers.get(life, 0)

    def with_batches(self, batches: Iterable[tuple[str, int]]) -> CommittedBatches:
        """Return the record with some more batches."""
        numbers = dict(self.numbers)
        for life, number in batches:
            numbers[life] = max(number, numbers.pop(life, 0))
        kept = dict(list(numbers.items())[-LIVES_KEPT:])
        return CommittedBatches(kept, self.swept & kept.keys())

    def with_swept(self, lives: Iterable[str]) -> CommittedBatches:
        """Return the record with more lives that need no sweep."""
        return replace(self, swept=(self.swept | set(lives)) & self.numbers.keys())

    def to_property(self) -> str:
        """Return the property's value."""
        stored = {"formatVersion": 1, "published": dict(self.numbers), "swept": sorted(self.swept)}
        return json.dumps(stored, separators=(",", ":"))


def read_committed(
    identity: str, properties: Mapping[str, str], summaries: Iterable[Mapping[str, str]], table: str
) -> CommittedBatches | None:
    """Return the batches that a sink has committed; None if the table has no record of them.

    Args:
        identity: the sink's identity.
        properties: the table's properties.
        summaries: the summaries of the table's snapshots, oldest first.
        table: the table's name in messages.

    Raises:
        UnreadableRecord: the property is damaged, or a newer version wrote it.
    """
    text = properties.get(property_of(identity))
    said = [
        (life, int(number))
        for summary in summaries
        if summary.get(f"{PREFIX}sink-id") == identity
        for life, _, number in [summary.get(f"{PREFIX}batch", "").rpartition("/")]
        if life and number.isdigit()
    ]
    if text is None:
        return CommittedBatches().with_batches(said) if said else None
    stored = read_record(
        _Stored,
        text,
        name=f"the property {property_of(identity)}",
        sink=table,
        fix="use the version of streamjob that wrote it; or set the property to the newest value that former metadata "
        "files of the table have",
    )
    known = CommittedBatches(stored.published, frozenset(stored.swept))
    missing = [(life, number) for life, number in said if not known.covers(life, number)]
    return known.with_batches(missing) if missing else known
