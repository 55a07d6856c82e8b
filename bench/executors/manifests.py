"""Measures a manifest by the number of its files: its size, the time to write and to read it, and its memory."""

from __future__ import annotations

import hashlib
import os
import time
import tracemalloc
import uuid

from bench.executors.results import Manifested

from streamjob.ids import BatchId, ChainUid, CheckpointId, Epoch
from streamjob.snapshot.manifest import ChainState, FileRef, Manifest


def manifest_of(files: int) -> Manifested:
    """Write and read a manifest with so many files of state, each with a path of Spark's and a name of its own."""
    load = os.getloadavg()[0]
    tracemalloc.start()
    listed = tuple(map(_file, range(files)))
    chain = ChainState(uid=ChainUid("keyed"), operators=(), batch=BatchId(1), files=listed)
    made = Manifest(
        job="bench",
        namespace="default",
        id=CheckpointId(1),
        epoch=Epoch(1),
        kind="checkpoint",
        triggered=0.0,
        completed=0.0,
        graph={},
        chains=(chain,),
        sources=(),
    )
    memory = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    begun = time.process_time()
    text = made.model_dump_json(by_alias=True)
    written = time.process_time()
    Manifest.model_validate_json(text)
    read = time.process_time()
    return Manifested(
        files=files,
        size=len(text),
        write_cpu=written - begun,
        read_cpu=read - written,
        memory=memory,
        load_before=load,
    )


def _file(number: int) -> FileRef:
    sha256 = hashlib.sha256(str(number).encode()).hexdigest()
    return FileRef(
        path=f"state/0/{number % 400}/SSTs/{number:06}-{uuid.UUID(sha256[:32])}.sst",
        object=f"shared/{number % 1000}/{sha256}",
        length=67_108_864,
        sha256=sha256,
    )
