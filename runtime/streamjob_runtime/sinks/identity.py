"""The identity of a sink at the place where it commits."""

from __future__ import annotations

from hashlib import sha256


def identity_of(namespace: str, job: str, sink: str) -> str:
    """Return a sink's name in tables, sessions and locks: 16 hexadecimal digits, the same in all epochs."""
    return sha256("\0".join((namespace, job, sink)).encode()).hexdigest()[:16]
