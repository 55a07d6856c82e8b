"""Multipart uploads over a store in memory, with the rules of S3, or with others."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from streamjob.ids import Key
from streamjob.store.s3_uploads import PendingUpload, S3Uploads
from streamjob.testing.memory_store import MemoryStore


@dataclass
class MemoryUploads(S3Uploads):
    """Uploads that `store` shows once they are completed; subclasses break one rule each."""

    store: MemoryStore
    pending: dict[str, dict[int, bytes]] = field(default_factory=dict)
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def begin(self, key: Key) -> PendingUpload:
        upload = PendingUpload(key, f"upload-{next(self.numbers)}")
        self.pending[upload.id] = {}
        return upload

    def put_part(self, upload: PendingUpload, number: int, content: bytes | memoryview) -> str:
        self.pending[upload.id][number] = bytes(content)
        return f"tag-{number}"

    def parts(self, upload: PendingUpload) -> Mapping[int, str] | None:
        found = self.pending.get(upload.id)
        return None if found is None else {number: f"tag-{number}" for number in found}

    def complete(self, upload: PendingUpload, tags: Sequence[str]) -> bool:
        found = self.pending.pop(upload.id, None)
        if found is None:
            return False
        self.store.put(upload.key, b"".join(found[number] for number in range(1, len(tags) + 1)))
        return True

    def abort(self, upload: PendingUpload) -> None:
        self.pending.pop(upload.id, None)
