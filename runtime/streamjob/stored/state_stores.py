"""Lists a snapshot's stateful operators and their state stores, without reading the state.

Spark describes each stateful operator in a small file in its checkpoint directory, which is among the chain's files. A
store's files give its size.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from streamjob.errors import CannotRestore
from streamjob.ids import BatchId, ChainUid, OperatorUid
from streamjob.snapshot.manifest import ChainState, FileRef, Manifest
from streamjob.store.base import StoreDenied, StoreError, StoreUnavailable
from streamjob.store.opening import References
from streamjob.stored.reading import StoredSnapshot
from streamjob.stored.state_owners import owners

DEFAULT_STORE = "default"
JOIN = "symmetricHashJoin"
_METADATA = re.compile(r"state/(\d+)/_metadata/(?:metadata|v2/(\d+))")
_STORE_FILE = re.compile(r"state/(\d+)/\d+/(?:([^/]+)/)?[^/]+")
_INNER = frozenset({"SSTs", "logs", "_metadata"})


class StateUnreadable(CannotRestore):
    """Spark's description of a chain's state cannot be read from the snapshot."""


@dataclass(frozen=True, slots=True)
class StateStore:
    """A state store with all its partitions; `size` is the total of its files, which are compressed, in bytes."""

    name: str
    partitions: int
    files: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StateOperator:
    """A stateful operator of a chain's query.

    Args:
        id: Spark's number of the operator in the chain.
        name: Spark's name for it.
        uids: the job operator that owns the state; several if it is ambiguous.
        variables: the state variables of `transformWithState`, with their kinds.
        timers: whether `transformWithState` may have registered timers.
    """

    chain: ChainUid
    id: int
    name: str
    uids: tuple[OperatorUid, ...]
    stores: tuple[StateStore, ...]
    variables: Mapping[str, str]
    timers: bool

    @property
    def label(self) -> str:
        """Its name in messages: `symmetricHashJoin 1 of chain 'report'`."""
        return f"{self.name} {self.id} of chain {self.chain!r}"


def read_state_operators(snapshot: StoredSnapshot) -> tuple[StateOperator, ...]:
    """Return a snapshot's stateful operators, by chain and Spark's number; reads a small file for each.

    Raises:
        StateUnreadable: a description cannot be read, or the snapshot has no readable manifest.
        StoreUnavailable, StoreDenied: the store did not answer or refused.
    """
    manifest = snapshot.manifest
    if manifest is None:
        raise StateUnreadable(snapshot.problem or f"{snapshot.uri} cannot be read")
    home = snapshot.home.store()
    references = References(home)
    try:
        return tuple(
            operator for chain in manifest.chains for operator in _operators(snapshot, manifest, chain, references)
        )
    finally:
        references.close()
        home.close()


def _operators(
    snapshot: StoredSnapshot, manifest: Manifest, chain: ChainState, references: References
) -> Iterator[StateOperator]:
    found = {
        number: _content(snapshot, file, references)
        for number, file in sorted(_metadata_files(chain.files, chain.batch).items())
    }
    if not found:
        return
    try:
        names = [str(content["operatorInfo"]["operatorName"]) for content in found.values()]
        whose = owners(manifest.graph, chain.operators, names)
        sizes = _sizes(chain)
        for (number, content), name, uids in zip(found.items(), names, whose, strict=True):
            properties = json.loads(content.get("operatorPropertiesJson") or "{}")
            yield StateOperator(
                chain=chain.uid,
                id=number,
                name=name,
                uids=uids,
                stores=tuple(
                    StateStore(
                        name=str(each["storeName"]),
                        partitions=int(each["numPartitions"]),
                        files=len(sizes[number, str(each["storeName"])]),
                        size=sum(sizes[number, str(each["storeName"])]),
                    )
                    for each in content["stateStoreInfo"]
                ),
                variables={
                    str(each["stateName"]): str(each["stateVariableType"])
                    for each in properties.get("stateVariables") or ()
                },
                timers=properties.get("timeMode", "NoTime") != "NoTime",
            )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StateUnreadable(
            f"{snapshot.label}: Spark's description of the state of chain {chain.uid!r} is not of a known form "
            f"({error!r})"
        ) from None


def _metadata_files(files: tuple[FileRef, ...], batch: BatchId) -> dict[int, FileRef]:
    """Return the file that describes each operator; the second format writes a new one for some batches."""
    newest: dict[int, tuple[int, FileRef]] = {}
    for file in files:
        match = _METADATA.fullmatch(file.path)
        if match is None:
            continue
        number, since = int(match[1]), int(match[2]) if match[2] else -1
        if since <= batch and since >= newest.get(number, (-1, file))[0]:
            newest[number] = (since, file)
    return {number: file for number, (_, file) in newest.items()}


def _sizes(chain: ChainState) -> Mapping[tuple[int, str], list[int]]:
    sizes: dict[tuple[int, str], list[int]] = defaultdict(list)
    for file in chain.files:
        match = _STORE_FILE.match(file.path)
        if match is not None:
            store = DEFAULT_STORE if match[2] is None or match[2] in _INNER else match[2]
            sizes[int(match[1]), store].append(file.length)
    return sizes


def _content(snapshot: StoredSnapshot, file: FileRef, references: References) -> dict[str, Any]:
    try:
        store, key = references.find(file.object)
        content = store.get_range(key, file.offset, file.length)
    except (StoreUnavailable, StoreDenied):
        raise
    except StoreError as error:
        raise StateUnreadable(
            f"{snapshot.label}: {file.path} cannot be read: {error.what}", "start from another checkpoint or savepoint"
        ) from error
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise StateUnreadable(
            f"{snapshot.label}: {file.path} is not what was uploaded", "start from another checkpoint or savepoint"
        )
    try:
        value = json.loads(content.decode().partition("\n")[2])
    except ValueError as error:
        raise StateUnreadable(f"{snapshot.label}: {file.path} is not of a known form ({error})") from None
    if not isinstance(value, dict):
        raise StateUnreadable(f"{snapshot.label}: {file.path} is not of a known form")
    return value
