"""Reassembles a restored checkpoint for a query with other inputs, or with other numbers of stateful operators.

Spark's offset log has one line per source of the query, by position. Each source's own files and each stateful
operator's state are in numbered directories. So lines and directories can be moved to other numbers. A rewritten file
is a new file; hard links to the old content, such as a hold's, do not change.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from streamjob.ids import BatchId
from streamjob_runtime.spark.checkpoint_dir.errors import UnreadableCheckpointFile
from streamjob_runtime.spark.checkpoint_dir.logs import batches, read_offsets
from streamjob_runtime.spark.checkpoint_dir.text_files import json_object, write_anew

_SCHEMA = "/_stateSchema/"


@dataclass(frozen=True, slots=True)
class GraftedInput:
    """A line of the offset log.

    Args:
        directory: the number of its directory below `sources/`.
        offset: the source's offset as Spark writes it; VOID_OFFSET for none.
        files: the source's own files from its previous place; None if there are none.
    """

    directory: int
    offset: str
    files: Path | None = None


def graft_inputs(checkpoint: Path, batch: BatchId, inputs: Sequence[GraftedInput]) -> None:
    """Give a committed batch other inputs, and the query a new id.

    Args:
        checkpoint: Spark's checkpoint directory of a chain whose query is not running.
        batch: the last committed batch.
        inputs: the query's inputs, in Spark's order.

    Raises:
        CheckpointFileMissing, UnreadableCheckpointFile: the offset log does not have the format of Spark 4.3.
    """
    sources = checkpoint / "sources"
    fresh = checkpoint / ".sources"
    for each in inputs:
        target = fresh / str(each.directory)
        if each.files is not None and each.files.is_dir() and not target.exists():
            shutil.copytree(each.files, target)
    shutil.rmtree(sources, ignore_errors=True)
    if fresh.exists():
        fresh.rename(sources)
    last = replace(read_offsets(checkpoint, batch), version="v1", sources=tuple(each.offset for each in inputs))
    write_anew(checkpoint / "offsets" / str(batch), last.render())
    if batch > 0:
        # Spark reads it as the start of the last batch, and only its number of lines matters.
        write_anew(checkpoint / "offsets" / str(batch - 1), last.render())
    write_anew(checkpoint / "metadata", json.dumps({"id": str(uuid.uuid4())}))


def graft_state(checkpoint: Path, numbers: Mapping[int, int]) -> None:
    """Renumber stateful operators, and drop the state of omitted ones.

    Args:
        checkpoint: Spark's checkpoint directory of a chain whose query is not running.
        numbers: maps an operator's new number to its previous one.

    Raises:
        UnreadableCheckpointFile: a file does not have the format of Spark 4.3.
    """
    state, former = checkpoint / "state", checkpoint / ".state"
    if state.exists():
        state.rename(former)
    for number, had in numbers.items():
        shutil.copytree(former / str(had), state / str(number), copy_function=_link)
        _renumber(state / str(number), number)
    shutil.rmtree(former, ignore_errors=True)
    for each in batches(checkpoint / "commits"):
        file = checkpoint / "commits" / str(each)
        version, _, text = file.read_text("utf-8").partition("\n")
        entry = json_object(file, text)
        ids = entry.pop("stateUniqueIds", None) or {}
        kept = {str(number): ids[str(had)] for number, had in numbers.items() if str(had) in ids}
        if kept:
            entry["stateUniqueIds"] = kept
        write_anew(file, f"{version}\n{json.dumps(entry, separators=(',', ':'))}")


def _link(source: str, target: str) -> None:
    Path(target).hardlink_to(source)


def _renumber(operator: Path, number: int) -> None:
    for file in (operator / "_metadata" / "metadata", *(operator / "_metadata" / "v2").glob("[0-9]*")):
        if not file.exists():
            continue
        version, _, text = file.read_text("utf-8").partition("\n")
        metadata = json_object(file, text)
        try:
            metadata["operatorInfo"]["operatorId"] = number
            for store in metadata["stateStoreInfo"]:
                if store.get("stateSchemaFilePaths"):
                    store["stateSchemaFilePaths"] = [_moved(path, number) for path in store["stateSchemaFilePaths"]]
        except (KeyError, TypeError) as error:
            raise UnreadableCheckpointFile(file, repr(error)) from None
        write_anew(file, f"{version}\n{json.dumps(metadata, separators=(',', ':'), ensure_ascii=False)}")


def _moved(path: str, number: int) -> str:
    head, _, tail = path.rpartition(_SCHEMA)
    return f"{head.rpartition('/')[0]}/{number}{_SCHEMA}{tail}"
