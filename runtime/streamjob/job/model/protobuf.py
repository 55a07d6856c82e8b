"""Facts about Protobuf as a form of records: its two forms of schemas, and its options."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping

_FLAG = re.compile(r"true|false", re.IGNORECASE)
OPTIONS: Mapping[str, re.Pattern[str]] = {
    "emit.default.values": _FLAG,
    "enums.as.ints": _FLAG,
    "upcast.unsigned.ints": _FLAG,
    "unwrap.primitive.wrapper.types": _FLAG,
    "recursive.fields.max.depth": re.compile(r"[1-9]|10"),
}
"""The options of Spark's `from_protobuf` that sources take, with their values."""


def is_text(schema: str) -> bool:
    """Return whether a schema is the text of a `.proto` file, which has braces; base64 has none."""
    return "{" in schema


def is_descriptor_set(schema: str) -> bool:
    """Return whether a schema is base64, which may have line ends."""
    try:
        return bool(base64.b64decode("".join(schema.split()), validate=True))
    except (binascii.Error, ValueError):
        return False
