"""Records of Avro, encoded by hand as its specification says, so that no library is tested against itself."""

from __future__ import annotations

import json
import struct
from typing import Any


def record(name: str, /, **fields: Any) -> str:
    """Return the schema of a record; a field is a type, or a type and its default."""
    described = [
        {"name": field, "type": each[0], "default": each[1]}
        if isinstance(each, tuple)
        else {"name": field, "type": each}
        for field, each in fields.items()
    ]
    return json.dumps({"type": "record", "name": name, "fields": described})


def long(number: int) -> bytes:
    """Return an int or a long."""
    left = (number << 1) ^ (number >> 63)
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])


def text(value: str) -> bytes:
    """Return a string."""
    return long(len(value.encode())) + value.encode()


def named(schema_id: int, content: bytes) -> bytes:
    """Return a record with the id of its schema in front, as Confluent's serializers write it."""
    return struct.pack(">bI", 0, schema_id) + content
