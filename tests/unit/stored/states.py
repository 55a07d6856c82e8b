"""Checkpoints with state, as Spark describes it, for tests of what is stored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.unit.stored.job import Job


def metadata(number: int, name: str, *stores: str, properties: Mapping[str, Any] | None = None) -> bytes:
    """Spark's metadata of a stateful operator."""
    content: dict[str, Any] = {
        "operatorInfo": {"operatorId": number, "operatorName": name},
        "stateStoreInfo": [{"storeName": each, "numColsPrefixKey": 0, "numPartitions": 2} for each in stores],
    }
    if properties is not None:
        content["operatorPropertiesJson"] = json.dumps(properties)
    return f"{'v1' if properties is None else 'v2'}\n{json.dumps(content)}".encode()


def join() -> dict[str, bytes]:
    """The files of a join."""
    return {
        "state/0/_metadata/metadata": metadata(0, "symmetricHashJoin", "left-keys", "right-keys"),
        "state/0/0/left-keys/1_a.changelog": b"12345",
        "state/0/1/left-keys/1_b.changelog": b"123",
        "state/0/0/right-keys/1_c.zip": b"1",
        "state/0/0/right-keys/SSTs/000_d.sst": b"1234567",
        "state/0/0/right-keys/_metadata/schema": b"12",
    }


def with_state(job: Job, number: int, files: Mapping[str, bytes], **changes: Any) -> None:
    """Complete a checkpoint with such files; `changes` are of the manifest."""
    job.complete(number, *job.upload(**files), **changes)
