"""Checks keys: relative paths that name the same object in every store and never leave its root."""

from __future__ import annotations

from streamjob.ids import Key
from streamjob.store.base import StoreError

RESERVED = ".tmp"
"""No key begins with this segment: the local store keeps unfinished writes below it."""

_LONGEST_KEY = 1024
_LONGEST_PART = 255


class InvalidKey(StoreError):
    """A key that stores refuse: absolute, with `..` or an empty segment, too long, or with control characters."""


def check_key(key: str) -> Key:
    """Return `key` if it is valid.

    Raises:
        InvalidKey: it is not valid.
    """
    parts = key.split("/")
    if not key or any(part in ("", ".", "..") for part in parts):
        raise InvalidKey(f"{key!r} is not a valid key", "keys are relative paths without empty parts, '.' and '..'")
    if parts[0] == RESERVED:
        raise InvalidKey(f"{key!r} is not a valid key", f"{RESERVED} is reserved for unfinished writes of the store")
    if any(ord(character) < 32 or ord(character) == 127 or character == "\\" for character in key):
        raise InvalidKey(f"{key!r} is not a valid key", "keys have no control characters and no backslash")
    if len(key.encode()) > _LONGEST_KEY or any(len(part.encode()) > _LONGEST_PART for part in parts):
        raise InvalidKey(
            f"{key[:80]!r}… is too long for a key of a store",
            f"keep keys within {_LONGEST_KEY} bytes and each part of it within {_LONGEST_PART}",
        )
    return Key(key)


def check_prefix(prefix: str) -> str:
    """Return `prefix` if keys can begin with it: empty, a key, or a key with a slash at its end.

    Raises:
        InvalidKey: no key can begin with it.
    """
    if prefix:
        check_key(prefix.removesuffix("/"))
    return prefix
