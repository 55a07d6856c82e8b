"""JSON merge patches (RFC 7396) between documents without null, and the texts of a stream of them; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic_core import to_json

Document = Mapping[str, Any]


def merge_patch(old: Document, new: Document) -> dict[str, Any]:
    """Return the patch that makes one document out of another; empty if they are equal.

    Args:
        old: the document before.
        new: the document after; null stands for a missing field, so neither has any.
    """
    patch: dict[str, Any] = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        if value is before:
            continue
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            if changed := merge_patch(before, value):
                patch[name] = changed
        elif value != before or type(value) is not type(before):
            patch[name] = value
    return patch


class Feed:
    """The current version of a document and the step from the previous one, each encoded once for all readers."""

    def __init__(self) -> None:
        self.version = 0
        self._document: Document = {}
        self._patch = b""
        self._whole = b""

    @property
    def has_document(self) -> bool:
        """Whether there is a document."""
        return bool(self._document)

    def advance(self, document: Document) -> bool:
        """Take the next document; return whether it differs from the current one."""
        patch = merge_patch(self._document, document)
        if not patch:
            return False
        self._patch = server_sent("patch", patch) if self._document else b""
        self._document, self._whole = document, b""
        self.version += 1
        return True

    def news(self, version: int) -> bytes:
        """Return what brings a reader of a version up to date: nothing, a patch, or the whole document."""
        if version == self.version:
            return b""
        if version == self.version - 1 and self._patch:
            return self._patch
        if not self._whole:
            self._whole = server_sent("job", self._document)
        return self._whole

    def forget(self) -> None:
        """Forget the document; the next one is sent whole."""
        self.version += 1
        self._document, self._patch, self._whole = {}, b"", b""


def server_sent(event: str, data: object, number: int | None = None) -> bytes:
    """Return a server-sent event.

    Args:
        event: its name.
        data: a JSON value; as JSON it has no line breaks.
        number: its id; None for none.
    """
    line = b"" if number is None else b"id: %d\n" % number
    return b"%sevent: %s\ndata: %s\n\n" % (line, event.encode(), to_json(data))
