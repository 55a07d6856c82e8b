"""The checksum at the end of a stored object, which exposes any wrong byte in it.

The last member of an object is `"checksum"`: the SHA-256 of all bytes before that member's comma. So readers need no
canonical form of JSON.
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
    """The checksum does not match the content."""
    ABSENT = "absent"
    """There is no checksum, as in version 1 of the formats."""


def sealed(fields: Mapping[str, object]) -> bytes:
    """Return the stored form of an object: its fields as JSON, followed by their checksum."""
    body = json.dumps(fields, separators=(",", ":"))[:-1].encode()
    return body + b',"checksum":"' + hashlib.sha256(body).hexdigest().encode() + b'"}'


def check_seal(content: bytes) -> Seal:
    """Check the checksum at the end of an object."""
    found = _SEAL.search(content)
    if found is None:
        return Seal.ABSENT
    return Seal.WHOLE if hashlib.sha256(content[: found.start()]).hexdigest().encode() == found[1] else Seal.BROKEN
