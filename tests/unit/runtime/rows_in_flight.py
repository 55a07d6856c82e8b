"""A savepoint with records in flight, for tests of what is stored in channels."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from streamjob.ids import ChainUid
from streamjob.snapshot.manifest import ChannelEntry, ChannelSegment, ChannelState, EntryKind, Manifest
from streamjob.store import LocalStore
from streamjob.store.opening import Location
from streamjob.stored.reading import StoredSnapshot
from streamjob.stored.state_tables import StateTable, TablesRequest
from streamjob_runtime.inspection import read_tables


class InFlight:
    """A savepoint with records in flight in one channel."""

    def __init__(self, directory: Path) -> None:
        self.store = LocalStore(directory)
        self.directory = directory
        self.entries: list[ChannelEntry] = []

    def add(self, *rows: dict[str, Any]) -> None:
        import pyarrow as pa

        table = pa.Table.from_pylist(list(rows))
        path = self.directory / f"segment-{len(self.entries)}"
        with pa.ipc.new_stream(str(path), table.schema) as writer:
            writer.write_table(table)
        content = path.read_bytes()
        segment = ChannelSegment(
            path=f"channels/first/s{len(self.entries)}",
            object=path.name,
            length=len(content),
            sha256=hashlib.sha256(content).hexdigest(),
            records=len(rows),
        )
        self.entries.append(ChannelEntry(index=len(self.entries), kind=EntryKind.DATA, segments=(segment,)))

    def read(self, limit: int = 20, spark: Any = None, **changes: Any) -> list[StateTable]:
        channel = ChannelState(source=ChainUid("first"), target=ChainUid("second"), entries=tuple(self.entries))
        manifest = Manifest.model_validate(
            {"job": "j", "namespace": "d", "id": 1, "epoch": 1, "kind": "savepoint", "graph": {}}
            | {"triggered": 0, "completed": 1, "channels": (channel,)}
        )
        snapshot = StoredSnapshot(
            uri=f"{self.store.uri}manifest.json", home=Location(self.store.uri), manifest=manifest
        )
        return list(read_tables(TablesRequest(snapshot=snapshot, channel=channel, limit=limit, **changes), spark))
