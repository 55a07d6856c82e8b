"""The checksum at the end of a stored object: one wrong byte anywhere in the object is noticed.

An object's last member is `"checksum"`, and its value is the SHA-256 of all bytes before that member's comma. So a
reader needs no canonical form of JSON.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from enum import Enum

CHECKSUM = "checksum"

_SEAL = re.compile(rb',"checksum":"([0-9a-f]{64})"}\s*\Z')


class Seal(Enum):
    """Whether the checksum at the end of an object matches its content."""

    WHOLE = "whole"
    BROKEN = "broken"
    """The checksum is not that of the content."""
    ABSENT = "absent"
    """It does not end with a checksum, as in version 1 of the formats."""


def sealed(fields: Mapping[str, object]) -> bytes:
    """Return the stored form of an object: its fields as JSON, and the checksum of that."""
    body = json.dumps(fields, separators=(",", ":"))[:-1].encode()
    return body + b',"checksum":"' + hashlib.sha256(body).hexdigest().encode() + b'"}'


def check_seal(content: bytes) -> Seal:
    """Return what an object's end says of its content."""
    found = _SEAL.search(content)
    if found is None:
        return Seal.ABSENT
    return Seal.WHOLE if hashlib.sha256(content[: found.start()]).hexdigest().encode() == found[1] else Seal.BROKEN
