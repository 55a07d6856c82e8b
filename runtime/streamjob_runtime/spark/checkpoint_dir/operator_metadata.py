"""Reads names and store schemas of a query's stateful operators from Spark's `_metadata`."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from streamjob.ids import BatchId
from streamjob_runtime.spark.checkpoint_dir.errors import UnreadableCheckpointFile
from streamjob_runtime.spark.checkpoint_dir.logs import batches

Columns = tuple[tuple[str, str], ...]
"""The columns of a key or a value: name and type, as JSON without details that do not affect storage."""


def operator_names(checkpoint: Path, batch: BatchId) -> dict[int, str]:
    """Return Spark's names of the stateful operators of a checkpoint as of a batch, by number.

    Raises:
        UnreadableCheckpointFile: the metadata does not have the format of Spark 4.3.
    """
    names = {}
    for operator in (checkpoint / "state").glob("[0-9]*"):
        folder = operator / "_metadata"
        newest = max((b for b in batches(folder / "v2") if b <= batch), default=None)
        file = folder / "metadata" if newest is None else folder / "v2" / str(newest)
        try:
            names[int(operator.name)] = str(
                json.loads(file.read_text("utf-8").partition("\n")[2])["operatorInfo"]["operatorName"]
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UnreadableCheckpointFile(file, repr(error)) from None
    return dict(sorted(names.items()))


def store_schemas(operator: Path) -> dict[str, tuple[Columns, Columns]]:
    """Return the key and value columns of an operator's stores, by store name.

    Args:
        operator: its directory below `state/`. State of `transformWithState` is described elsewhere, and left out.

    Raises:
        UnreadableCheckpointFile: a file does not have the format of Spark 4.3.
    """
    found = {}
    for file in sorted((operator / "0").glob("**/_metadata/schema")):
        name = file.relative_to(operator / "0").parts[0]
        key, value = _schemas(file)
        found["default" if name == "_metadata" else name] = (key, value)
    return found


def _schemas(file: Path) -> tuple[Columns, Columns]:
    content = file.read_bytes()
    try:
        version, rest = _text(content)
        if version == "v2":
            # Each schema is split into pieces that Java can write as one text, after their number.
            key, rest = _pieces(rest)
            value, _ = _pieces(rest)
        elif version == "v1":
            key, rest = _text(rest)
            value, _ = _text(rest)
        else:
            raise ValueError(f"unknown version {version!r}")
        return _columns(key), _columns(value)
    except (ValueError, KeyError, TypeError, struct.error) as error:
        raise UnreadableCheckpointFile(file, repr(error)) from None


def _text(content: bytes) -> tuple[str, bytes]:
    (length,) = struct.unpack_from(">H", content)
    return content[2 : 2 + length].decode(), content[2 + length :]


def _pieces(content: bytes) -> tuple[str, bytes]:
    (count,) = struct.unpack_from(">i", content)
    rest, pieces = content[4:], []
    for _ in range(count):
        piece, rest = _text(rest)
        pieces.append(piece)
    return "".join(pieces), rest


def _columns(schema: str) -> Columns:
    return tuple((str(each["name"]), json.dumps(_stored(each["type"]))) for each in json.loads(schema)["fields"])


def _stored(kind: Any) -> Any:
    """Return a type without the names, nullability and metadata inside it."""
    if isinstance(kind, dict):
        if kind.get("type") == "struct":
            return {"struct": [[each["name"], _stored(each["type"])] for each in kind["fields"]]}
        return {key: _stored(value) for key, value in kind.items() if key not in ("containsNull", "valueContainsNull")}
    return kind
