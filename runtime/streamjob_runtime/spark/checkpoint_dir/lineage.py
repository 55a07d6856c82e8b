"""Finds the files of one version of a RocksDB state store.

Spark writes a changelog for each version, and sometimes a snapshot: a zip with a list of its SST files. A version
consists of its newest snapshot and the changelogs after it. File names contain a unique id per attempt. The commit log
names only the last one, and the head of each changelog names its ancestors back to the snapshot before it.
"""

from __future__ import annotations

import json
import os
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

from streamjob_runtime.spark.checkpoint_dir.errors import UnreadableCheckpointFile

_LZ4_MAGIC = b"LZ4Block"
_LZ4_HEADER = struct.Struct("<8sBiii")
_LZ4_STORED = 0x10
_WITH_LINEAGE = (b"v3", b"v4")
_UTF_LENGTH = struct.Struct(">H")


def store_files(store: Path, version: int, unique_id: str) -> tuple[str, ...]:
    """Return the files of one version of a store, relative to the store's directory, newest changelog first.

    Args:
        store: the store's directory.
        version: the version of the state, one above the batch that wrote it.
        unique_id: the version's id in the commit log.

    Raises:
        FileNotFoundError: a file does not exist, or no longer exists.
        UnreadableCheckpointFile: a file does not have the format of Spark 4.3.
    """
    with os.scandir(store) as entries:
        present = {entry.name for entry in entries}
    files: list[str] = []
    ids = {version: unique_id}
    while version > 0:
        stem = f"{version}_{ids[version]}"
        if f"{stem}.zip" in present:
            return (*files, f"{stem}.zip", *snapshot_files(store / f"{stem}.zip"))
        files.append(f"{stem}.changelog")
        if version > 1 and version - 1 not in ids:
            ancestors = read_lineage(store / f"{stem}.changelog")
            if version - 1 not in ancestors:
                raise UnreadableCheckpointFile(store / f"{stem}.changelog", f"it does not name version {version - 1}")
            ids = ancestors | ids
        elif f"{stem}.changelog" not in present:
            raise FileNotFoundError(store / f"{stem}.changelog")
        version -= 1
    return tuple(files)


def read_lineage(changelog: Path) -> dict[int, str]:
    """Return the unique ids of the versions before a changelog's, back to the previous snapshot.

    Raises:
        FileNotFoundError: the changelog does not exist, or no longer exists.
        UnreadableCheckpointFile: it is not an LZ4-compressed changelog of state checkpoint format 2.
    """
    head = b""
    needed = 6
    for block in _lz4_blocks(changelog):
        head += block
        if len(head) >= 6:
            needed = 6 + _UTF_LENGTH.unpack_from(head, 4)[0]
        if len(head) >= needed:
            break
    if len(head) < needed or head[2:4] not in _WITH_LINEAGE:
        raise UnreadableCheckpointFile(changelog, "it is not a changelog of state checkpoint format 2")
    try:
        return {item["version"]: item["checkpointUniqueId"] for item in json.loads(head[6:needed])}
    except (ValueError, TypeError, KeyError) as error:
        raise UnreadableCheckpointFile(changelog, f"its lineage is broken ({error!r})") from None


def _lz4_blocks(file: Path) -> Iterator[bytes]:
    from pyarrow import Codec

    codec = Codec("lz4_raw")
    with file.open("rb") as stream:
        while header := stream.read(_LZ4_HEADER.size):
            if len(header) < _LZ4_HEADER.size or not header.startswith(_LZ4_MAGIC):
                raise UnreadableCheckpointFile(file, "it is not compressed with lz4, Spark's default")
            _, token, compressed, length, _ = _LZ4_HEADER.unpack(header)
            if length == 0:
                return
            data = stream.read(compressed)
            if len(data) < compressed:
                raise UnreadableCheckpointFile(file, "it ends within a compressed block")
            if token & 0xF0 == _LZ4_STORED:
                yield data
                continue
            try:
                yield codec.decompress(data, length).to_pybytes()
            except (OSError, ValueError) as error:
                raise UnreadableCheckpointFile(file, f"a compressed block is broken ({error})") from None


def snapshot_files(snapshot: Path) -> Iterator[str]:
    """Yield the files that a snapshot's zip lists, relative to the store's directory.

    Raises:
        FileNotFoundError: the zip does not exist.
        UnreadableCheckpointFile: it has no list of files.
    """
    try:
        with zipfile.ZipFile(snapshot) as archive:
            listing = json.loads(archive.read("metadata").decode().split("\n", 1)[1])
    except (zipfile.BadZipFile, KeyError, IndexError, ValueError) as error:
        raise UnreadableCheckpointFile(snapshot, f"its listing is broken ({error!r})") from None
    for sst in listing.get("sstFiles") or ():
        yield f"SSTs/{sst['dfsSstFileName']}"
    for log in listing.get("logFiles") or ():
        yield f"logs/{log['dfsLogFileName']}"
