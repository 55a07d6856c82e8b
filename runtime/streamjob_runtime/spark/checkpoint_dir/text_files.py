"""The text of files in Spark's checkpoint directories, where it is read and written outside of Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from streamjob_runtime.spark.checkpoint_dir.errors import UnreadableCheckpointFile


def write_anew(file: Path, content: str) -> None:
    """Give a file another content at once, or make it.

    It is a new file then: a hard link to the old content, such as a hold's, is left as it is.
    """
    # Spark's logs take only files for entries whose names are numbers.
    temporary = file.with_name(f".{file.name}.new")
    temporary.write_text(content, "utf-8")
    temporary.replace(file)


def json_object(file: Path, text: str) -> dict[str, Any]:
    """Return the JSON object that a file has behind its version.

    Raises:
        UnreadableCheckpointFile: the text is none.
    """
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UnreadableCheckpointFile(file, str(error)) from None
    if not isinstance(value, dict):
        raise UnreadableCheckpointFile(file, "its second line is not a JSON object")
    return value
