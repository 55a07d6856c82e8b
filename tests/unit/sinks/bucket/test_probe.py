"""A server whose uploads do not behave as in S3 is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from tests.unit.sinks.bucket.memory_uploads import MemoryUploads

from streamjob.ids import Key
from streamjob.store.base import StoreDenied
from streamjob.store.s3_uploads import PendingUpload
from streamjob.testing.memory_store import MemoryStore
from streamjob_runtime.sinks.bucket.probe import UnsuitableBucket, probe_uploads


class Visible(MemoryUploads):
    def put_part(self, upload: PendingUpload, number: int, content: bytes | memoryview) -> str:
        self.store.put(upload.key, bytes(content))
        return super().put_part(upload, number, content)


class Forgetful(MemoryUploads):
    def parts(self, upload: PendingUpload) -> Mapping[int, str] | None:
        return {}


class Idle(MemoryUploads):
    def complete(self, upload: PendingUpload, tags: Sequence[str]) -> bool:
        self.store.put(upload.key, b"")
        return True


class Lasting(MemoryUploads):
    def complete(self, upload: PendingUpload, tags: Sequence[str]) -> bool:
        kept = self.pending[upload.id]
        done = super().complete(upload, tags)
        self.pending[upload.id] = kept
        return done


class Repeating(MemoryUploads):
    def complete(self, upload: PendingUpload, tags: Sequence[str]) -> bool:
        self.store.put(upload.key, b"probe")
        return super().complete(upload, tags) or True


class Unending(MemoryUploads):
    def abort(self, upload: PendingUpload) -> None:
        pass


class Denied(MemoryUploads):
    def begin(self, key: Key) -> PendingUpload:
        raise StoreDenied("may not begin an upload", "allow it")


def test_uploads_with_the_rules_of_s3_are_accepted_and_leave_nothing() -> None:
    uploads = MemoryUploads(MemoryStore())
    probe_uploads(uploads, uploads.store, Key("probe"))

    assert uploads.store.objects == {}
    assert uploads.pending == {}


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (Visible, "shows an upload that is not completed"),
        (Forgetful, "does not know the parts of an upload"),
        (Idle, "does not make an object of a completed upload"),
        (Lasting, "keeps an upload that was completed"),
        (Repeating, "completes an upload twice"),
        (Unending, "completes an upload that was aborted"),
    ],
)
def test_uploads_with_another_rule_are_refused_and_leave_no_object(kind: type[MemoryUploads], what: str) -> None:
    uploads = kind(MemoryStore())

    with pytest.raises(UnsuitableBucket, match=what):
        probe_uploads(uploads, uploads.store, Key("probe"))
    assert uploads.store.objects == {}


def test_a_missing_right_ends_the_start_with_its_reason() -> None:
    uploads = Denied(MemoryStore())

    with pytest.raises(StoreDenied, match="may not begin an upload"):
        probe_uploads(uploads, uploads.store, Key("probe"))
