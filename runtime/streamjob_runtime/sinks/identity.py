"""What a sink is known by where it publishes."""

from __future__ import annotations

from hashlib import sha256


def identity_of(namespace: str, job: str, sink: str) -> str:
    """Return the name of a sink in tables, sessions and locks: 16 hexadecimal digits, the same in all its epochs."""
    return sha256("\0".join((namespace, job, sink)).encode()).hexdigest()[:16]
