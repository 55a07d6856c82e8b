"""Rewrites the absolute paths that Spark stores in a checkpoint after it was restored to another directory.

Operators whose metadata has format 2 (transformWithState, joins with state format 3 and up) refer to their schema files
by absolute URI. Nothing else in the files of a cut depends on the directory.
"""

from __future__ import annotations

import json
from pathlib import Path

from streamjob_runtime.spark.checkpoint_dir.errors import UnreadableCheckpointFile
from streamjob_runtime.spark.checkpoint_dir.text_files import write_anew


def relocate(checkpoint: Path) -> tuple[str, ...]:
    """Make a restored checkpoint directory refer to its own schema files; return the rewritten files.

    A rewritten file is a new file; hard links to the old content, such as a hold's, do not change.

    Raises:
        UnreadableCheckpointFile: an operator's metadata does not have the format of Spark 4.3.
    """
    rewritten = []
    for file in sorted(checkpoint.glob("state/*/_metadata/v2/*")):
        if not file.name.isdigit():
            continue
        old = file.read_text("utf-8")
        new = _rewrite(file, old, checkpoint)
        if new != old:
            write_anew(file, new)
            rewritten.append(file.relative_to(checkpoint).as_posix())
    return tuple(rewritten)


def _rewrite(file: Path, content: str, checkpoint: Path) -> str:
    version, _, text = content.partition("\n")
    try:
        metadata = json.loads(text)
        stores = metadata["stateStoreInfo"]
        for store in stores:
            if store.get("stateSchemaFilePaths"):
                store["stateSchemaFilePaths"] = [_here(checkpoint, path) for path in store["stateSchemaFilePaths"]]
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadableCheckpointFile(file, repr(error)) from None
    return f"{version}\n{json.dumps(metadata, separators=(',', ':'), ensure_ascii=False)}"


def _here(checkpoint: Path, schema: str) -> str:
    head, separator, tail = schema.rpartition("/_stateSchema/")
    if not separator:
        raise ValueError(f"it names the schema file {schema!r}")
    operator = head.rpartition("/")[2]
    return f"file:{checkpoint.absolute()}/state/{operator}/_stateSchema/{tail}"
