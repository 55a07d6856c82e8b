"""Reads and writes files in Spark's checkpoint directories, outside of Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from streamjob_runtime.spark.checkpoint_dir.errors import UnreadableCheckpointFile


def write_anew(file: Path, content: str | bytes) -> None:
    """Create a file or replace its content atomically.

    The result is a new file; hard links to the old content, such as a hold's, do not change.
    """
    # Spark's logs only use files whose names are numbers as entries.
    temporary = file.with_name(f".{file.name}.new")
    temporary.write_bytes(content if isinstance(content, bytes) else content.encode())
    temporary.replace(file)


def json_object(file: Path, text: str) -> dict[str, Any]:
    """Return the JSON object after the version in a file.

    Raises:
        UnreadableCheckpointFile: there is no JSON object.
    """
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UnreadableCheckpointFile(file, str(error)) from None
    if not isinstance(value, dict):
        raise UnreadableCheckpointFile(file, "its second line is not a JSON object")
    return value
