"""The journal of a sink that publishes each batch: the table's own log.

The version that adds the rows of a batch has its record, too. Application transactions have what outlives a cleanup of
the log: up to which batch records are published and forgotten, and a random number of the process that may publish.
Each commit is based on the version in which this was looked up, and fails if there is another one since.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deltalake import DeltaTable

from streamjob.errors import CannotRestore
from streamjob.ids import BatchId
from streamjob.journal import JournalRecord
from streamjob_runtime.sinks.committables import read_journal_record
from streamjob_runtime.sinks.delta.commits import PREFIX, application
from streamjob_runtime.sinks.errors import OthersPublish

_PUBLISHER, _PUBLISHED, _FORGOTTEN = "publisher", "published", "forgotten"
_SINK, _RECORD, _EMPTY = "journalOf", "record", "journalIsEmpty"
_VERSIONS = (100, 2_000, None)
"""How many of the newest versions are read, until all records are found."""


class JournalCut(CannotRestore):
    """The table's log was cleaned up so far that records of published batches may be gone."""


@dataclass(frozen=True, slots=True)
class Note:
    """What a version of the table tells the journal: application transactions, and texts in the history."""

    numbers: Mapping[str, int] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)


NOTHING = Note()


class Journal:
    """The journal of one sink.

    Args:
        label: the sink's name in messages.
        identity: the sink's identity.
    """

    def __init__(self, label: str, identity: str) -> None:
        self._label = label
        self._identity = identity
        self._token = secrets.randbits(62)
        self._has_taken = False

    def is_in(self, table: DeltaTable) -> bool:
        """Return whether a table has a journal of the sink."""
        return self._number(table, _PUBLISHER) is not None

    def most(self, table: DeltaTable) -> int:
        """Return how many batches may have records that are not forgotten."""
        return max(0, (self._number(table, _PUBLISHED) or 0) - (self._number(table, _FORGOTTEN) or 0))

    def taking(self, table: DeltaTable) -> Note:
        """Return the note that lets this process alone publish."""
        taken = self._note({_PUBLISHER: self._token})
        return taken if self.most(table) else Note(taken.numbers, self.emptying().texts)

    def taken(self) -> None:
        """Note that `taking` is committed."""
        self._has_taken = True

    def check_owner(self, table: DeltaTable) -> None:
        """Check that this process may still publish and forget, if it ever might. Raises OthersPublish."""
        if self._has_taken and self._number(table, _PUBLISHER) != self._token:
            raise OthersPublish(self._label)

    def emptying(self) -> Note:
        """Return the note that no record before it counts."""
        return self._note({_PUBLISHED: 0, _FORGOTTEN: 0}, {_EMPTY: "true"})

    def recording(self, record: JournalRecord) -> Note:
        """Return the note of a published batch."""
        return self._note({_PUBLISHED: record.batch + 1}, {_RECORD: record.model_dump_json()})

    def forgetting(self, batches: Sequence[BatchId]) -> Note:
        """Return the note that the records of batches are not needed any more."""
        return self._note({_FORGOTTEN: max(batches) + 1}) if batches else NOTHING

    def records(self, table: DeltaTable) -> Sequence[JournalRecord]:
        """Return the records that are not forgotten.

        Raises:
            UnreadableRecord: one is damaged, or of an unknown form.
            JournalCut: versions that may have records are not in the log any more.
        """
        if not self.most(table):
            return ()
        forgotten = self._number(table, _FORGOTTEN) or 0
        for versions in _VERSIONS:
            history = table.history(versions)
            if (found := self._found(history, BatchId(forgotten - 1))) is not None:
                return found
        raise JournalCut(
            f"{self._label}: the table's log begins with version {history[-1]['version']}, and older versions may have "
            "records of batches that were published behind the checkpoint",
            "let the table keep its log for longer (delta.logRetentionDuration); start with --from and the checkpoint: "
            "what was published since stays, and is published again",
        )

    def _found(self, history: Sequence[Mapping[str, Any]], forgotten: BatchId) -> Sequence[JournalRecord] | None:
        """Return the records in the newest versions; None if older ones may have more."""
        found: list[JournalRecord] = []
        for version in history:
            if version.get(PREFIX + _SINK) != self._identity:
                continue
            if text := version.get(PREFIX + _RECORD):
                record = read_journal_record(text, self._label)
                if record.batch <= forgotten:
                    return found
                found.append(record)
            if PREFIX + _EMPTY in version:
                return found
        return None

    def _note(self, numbers: Mapping[str, int], texts: Mapping[str, str] | None = None) -> Note:
        named = {application(self._identity, name): number for name, number in numbers.items()}
        return Note(named, {_SINK: self._identity, **(texts or {})})

    def _number(self, table: DeltaTable, name: str) -> int | None:
        return table.transaction_version(application(self._identity, name))
