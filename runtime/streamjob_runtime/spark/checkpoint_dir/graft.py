"""Puts a restored checkpoint together anew: for a query that has other inputs, or its state under other numbers.

Spark's offset log has a line for each source of the query, by position, and keeps each source's own files and each
stateful operator's state in directories with numbers. Who moves the lines and the directories moves what they stand
for. A rewritten file is a new one: a hard link to the old content, such as a hold's, is left as it is.
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
    """One line of the offset log.

    Args:
        directory: the number of its directory below `sources/`.
        offset: how far the source was read, as Spark writes it; VOID_OFFSET for nothing.
        files: the source's own files from where it was read before; None if there are none.
    """

    directory: int
    offset: str
    files: Path | None = None


def graft_inputs(checkpoint: Path, batch: BatchId, inputs: Sequence[GraftedInput]) -> None:
    """Give a committed batch other inputs, and the query an id of its own.

    Args:
        checkpoint: Spark's checkpoint directory of a chain whose query is not running.
        batch: the last committed batch.
        inputs: what the query reads, in Spark's order.

    Raises:
        CheckpointFileMissing, UnreadableCheckpointFile: the offset log is not one that Spark 4.3 writes.
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
        # Spark reads it as what the last batch began with, and only how many lines it has matters.
        write_anew(checkpoint / "offsets" / str(batch - 1), last.render())
    write_anew(checkpoint / "metadata", json.dumps({"id": str(uuid.uuid4())}))


def graft_state(checkpoint: Path, batch: BatchId, numbers: Mapping[int, int]) -> None:
    """Give stateful operators other numbers, and drop the state of those that are left out.

    Args:
        checkpoint: Spark's checkpoint directory of a chain whose query is not running.
        batch: the last committed batch.
        numbers: by an operator's number, the number that it had.

    Raises:
        UnreadableCheckpointFile: a file is not one that Spark 4.3 writes.
    """
    state, former = checkpoint / "state", checkpoint / ".state"
    if state.exists():
        state.rename(former)
    for number, had in numbers.items():
        shutil.copytree(former / str(had), state / str(number), copy_function=_link)
        _renumber(state / str(number), had, number)
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


def _renumber(operator: Path, had: int, number: int) -> None:
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
