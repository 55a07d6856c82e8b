"""Rewrites the absolute paths that Spark stores in a checkpoint after it was restored to another location.

Operators whose metadata has format 2 (transformWithState, joins with state format 3 and up) refer to their schema files
by absolute URI. Nothing else in the files of a cut depends on the location.
"""

from __future__ import annotations

import json
from pathlib import Path

from streamjob_runtime.spark.checkpoint_dir.errors import UnreadableCheckpointFile
from streamjob_runtime.spark.checkpoint_dir.text_files import write_anew


def relocate(checkpoint: Path, location: str) -> tuple[str, ...]:
    """Make a restored checkpoint refer to its own schema files; return the rewritten files.

    A rewritten file is a new file; hard links to the old content, such as a hold's, do not change.

    Args:
        checkpoint: its directory.
        location: the URI by which Spark will open it.

    Raises:
        UnreadableCheckpointFile: an operator's metadata does not have the format of Spark 4.3.
    """
    rewritten = []
    for file in sorted(checkpoint.glob("state/*/_metadata/v2/*")):
        if not file.name.isdigit():
            continue
        old = file.read_text("utf-8")
        new = _rewrite(file, old, location)
        if new != old:
            write_anew(file, new)
            rewritten.append(file.relative_to(checkpoint).as_posix())
    return tuple(rewritten)


def _rewrite(file: Path, content: str, location: str) -> str:
    version, _, text = content.partition("\n")
    try:
        metadata = json.loads(text)
        stores = metadata["stateStoreInfo"]
        for store in stores:
            if store.get("stateSchemaFilePaths"):
                store["stateSchemaFilePaths"] = [_here(location, path) for path in store["stateSchemaFilePaths"]]
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadableCheckpointFile(file, repr(error)) from None
    return f"{version}\n{json.dumps(metadata, separators=(',', ':'), ensure_ascii=False)}"


def _here(location: str, schema: str) -> str:
    head, separator, tail = schema.rpartition("/_stateSchema/")
    if not separator:
        raise ValueError(f"it names the schema file {schema!r}")
    operator = head.rpartition("/")[2]
    return f"{location}/state/{operator}/_stateSchema/{tail}"
