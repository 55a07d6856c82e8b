"""The journal of a sink that publishes each batch: the table's own log.

The version that adds the rows of a batch has its record, too. The version of a checkpoint names the last batch whose
record is not needed any more. An application transaction has a random number of the process that may publish: each
commit is based on the version in which this was looked up, and fails if there is another one since.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from deltalake import DeltaTable

from streamjob.errors import CannotRestore
from streamjob.ids import BatchId
from streamjob.journal import JournalRecord
from streamjob_runtime.sinks.committables import read_journal_record
from streamjob_runtime.sinks.delta.commits import PREFIX, application
from streamjob_runtime.sinks.errors import OthersPublish

_SINK, _RECORD, _FORGOTTEN, _EMPTY = "journalOf", "record", "forgotten", "journalIsEmpty"
_VERSIONS = (100, 2_000, None)
"""How many of the newest versions are read, until all records are found."""


class JournalCut(CannotRestore):
    """The table's log was cleaned up so far that records of published batches may be gone."""


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

    @property
    def publisher(self) -> Mapping[str, int]:
        """The application transaction of the process that may publish."""
        return {application(self._identity, "publisher"): self._token}

    def is_in(self, table: DeltaTable) -> bool:
        """Return whether a table has a journal of the sink."""
        return self._publisher_in(table) is not None

    def taken(self) -> None:
        """Note that a commit with `publisher` is done."""
        self._has_taken = True

    def check_owner(self, table: DeltaTable) -> None:
        """Check that this process may still publish, and delete records, if it ever might. Raises OthersPublish."""
        if self._has_taken and self._publisher_in(table) != self._token:
            raise OthersPublish(self._label)

    def emptied(self) -> Mapping[str, str]:
        """Return the notes of a commit before which no record counts."""
        return {_SINK: self._identity, _EMPTY: "true"}

    def recorded(self, record: JournalRecord) -> Mapping[str, str]:
        """Return the notes of a commit that publishes a batch."""
        return {_SINK: self._identity, _RECORD: record.model_dump_json()}

    def forgotten(self, batches: Sequence[BatchId]) -> Mapping[str, str]:
        """Return the notes of a commit that forgets the records of batches; none without any."""
        return {_SINK: self._identity, _FORGOTTEN: str(max(batches))} if batches else {}

    def records(self, table: DeltaTable) -> Sequence[JournalRecord]:
        """Return the records that are not forgotten.

        Raises:
            UnreadableRecord: one is damaged, or of an unknown form.
            JournalCut: versions that may have records are not in the log any more.
        """
        if not self.is_in(table):
            return ()
        for versions in _VERSIONS:
            history = table.history(versions)
            if (found := self._found(history)) is not None:
                return found
        raise JournalCut(
            f"{self._label}: the table's log begins with version {history[-1]['version']}, and older versions have "
            "records of batches that were published behind the checkpoint",
            "let the table keep its log for longer (delta.logRetentionDuration); start with --from and the checkpoint: "
            "what was published since stays, and is published again",
        )

    def _found(self, history: Sequence[Mapping[str, Any]]) -> Sequence[JournalRecord] | None:
        """Return the records in the newest versions; None if older ones may have more."""
        found: list[JournalRecord] = []
        forgotten = -1
        for entry in self._entries(history):
            forgotten = max(forgotten, int(entry.get(_FORGOTTEN, -1)))
            if text := entry.get(_RECORD):
                record = read_journal_record(text, self._label)
                if record.batch <= forgotten:
                    return found
                found.append(record)
            if _EMPTY in entry:
                return found
        return None

    def _entries(self, history: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, str]]:
        for version in history:
            if version.get(PREFIX + _SINK) == self._identity:
                yield {key.removeprefix(PREFIX): str(value) for key, value in version.items()}

    def _publisher_in(self, table: DeltaTable) -> int | None:
        (name,) = self.publisher
        return table.transaction_version(name)
