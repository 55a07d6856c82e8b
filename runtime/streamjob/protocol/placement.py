"""Decides on which executor each partition of a job's state is, and which files an executor takes over.

A state store is a directory of Spark's checkpoint of a chain. In an epoch it is opened by one executor, which has its
files from then on. Nobody lists shared places: an executor learns from the driver what a store consists of.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from streamjob.errors import StreamJobError
from streamjob.ids import ChainUid, Epoch
from streamjob.snapshot.manifest import FileRef

_STORE = re.compile(r"/(\d+)/([^/]+)/checkpoint/(state/\d+/(\d+)(?:/[^/]+)?)")
_FILE = re.compile(r"(state/\d+/\d+(?:/(?!SSTs/|logs/)[^/]+(?=/))?)/(?:SSTs/|logs/)?[^/]+")


class StoreRefused(StreamJobError):
    """An executor may not open a state store."""


class StoreNotOpened(StreamJobError):
    """No executor has opened a state store of a cut."""


@dataclass(frozen=True, slots=True)
class StateStore:
    """A state store.

    Args:
        path: its directory in Spark's checkpoint.
    """

    epoch: Epoch
    chain: ChainUid
    path: str
    partition: int

    @staticmethod
    def at(directory: str) -> StateStore:
        """Return the store at the path of a `job:` URI.

        Raises:
            StoreRefused: there is none.
        """
        found = _STORE.fullmatch(directory)
        if found is None:
            raise StoreRefused(f"{directory} is no state store")
        return StateStore(Epoch(int(found[1])), ChainUid(found[2]), found[3], int(found[4]))


@dataclass(frozen=True, slots=True)
class Counts:
    """The partitions of stateful operators on an executor, and their stores: a join has several in each partition."""

    partitions: int = 0
    stores: int = 0


def store_of(path: str) -> str:
    """Return the directory of the state store to which a file of Spark's checkpoint belongs.

    Raises:
        ValueError: the file belongs to none.
    """
    found = _FILE.fullmatch(path)
    if found is None:
        raise ValueError(f"{path} is no file of a state store")
    return found[1]


def by_store(files: Iterable[FileRef]) -> dict[str, tuple[FileRef, ...]]:
    """Return the files of a chain's state stores, by the directory of the store."""
    stores: dict[str, list[FileRef]] = {}
    for file in files:
        stores.setdefault(store_of(file.path), []).append(file)
    return {store: tuple(refs) for store, refs in stores.items()}


def place(
    partitions: int,
    slots: Mapping[str, int],
    holders: Mapping[int, Collection[str]] | None = None,
    offset: int = 0,
    fixed: Mapping[int, str] | None = None,
) -> tuple[str, ...]:
    """Return the executor of each partition: evenly by slots, and where the files are as far as that allows.

    Args:
        slots: the tasks that each executor runs at a time; not empty.
        holders: the executors that have files of a partition, the best one first.
        offset: the partition with which an even distribution begins; chains with different offsets even each other out.
        fixed: the executors of partitions that are open, and stay where they are.
    """
    placed = {partition: executor for partition, executor in (fixed or {}).items() if partition < partitions}
    shares = _shares(partitions, slots, offset)
    for executor in placed.values():
        shares[executor] = max(0, shares.get(executor, 0) - 1)
    for partition in range(partitions):
        if partition in placed:
            continue
        for executor in (holders or {}).get(partition, ()):
            if shares.get(executor, 0):
                placed[partition] = executor
                shares[executor] -= 1
                break
    left = itertools.chain(_in_turns(shares), itertools.cycle(slots))
    return tuple(placed[partition] if partition in placed else next(left) for partition in range(partitions))


def _shares(partitions: int, slots: Mapping[str, int], offset: int) -> dict[str, int]:
    """Return how many partitions each executor gets."""
    total = sum(slots.values())
    shares = {executor: partitions * count // total for executor, count in slots.items()}
    order = list(slots)
    order = order[offset % len(order) :] + order[: offset % len(order)]
    # Those with the largest remainder first, as with seats in a parliament.
    order.sort(key=lambda executor: -(partitions * slots[executor] % total))
    for executor in order[: partitions - sum(shares.values())]:
        shares[executor] += 1
    return shares


def _in_turns(shares: Mapping[str, int]) -> Iterable[str]:
    left = dict(shares)
    while any(left.values()):
        for executor, count in left.items():
            if count:
                left[executor] = count - 1
                yield executor


@dataclass
class Owners:
    """The owners of the state stores of one epoch.

    Args:
        restored: the files of the restored snapshot, by chain and store.
    """

    epoch: Epoch
    restored: Mapping[ChainUid, Mapping[str, tuple[FileRef, ...]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._opening: dict[tuple[ChainUid, str], str] = {}
        self._opened: dict[tuple[ChainUid, str], str] = {}

    def adopt(self, store: StateStore, executor: str) -> tuple[FileRef, ...]:
        """Let an executor open a store; return the files that it has to bring first.

        Raises:
            StoreRefused: the epoch is over, or the store is on another executor.
        """
        if store.epoch != self.epoch:
            raise StoreRefused(f"Epoch {store.epoch} is over: the job is in epoch {self.epoch}")
        owner = self._opening.setdefault((store.chain, store.path), executor)
        if owner != executor:
            raise StoreRefused(
                f"{store.path} of chain {store.chain!r} is on executor {owner}, and executor {executor} asks for it"
            )
        return self.restored.get(store.chain, {}).get(store.path, ())

    def adopted(self, store: StateStore, executor: str) -> None:
        """An executor has all files of a store, which may be part of checkpoints from now on.

        Raises:
            StoreRefused: the epoch is over, or the store is on another executor.
        """
        self.adopt(store, executor)
        self._opened[store.chain, store.path] = executor

    def split(self, chain: ChainUid, stores: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return the stores of a cut by owner: exactly one for each.

        Raises:
            StoreNotOpened: a store has no owner yet.
        """
        parts: dict[str, list[str]] = {}
        for store in stores:
            owner = self._opened.get((chain, store))
            if owner is None:
                raise StoreNotOpened(f"No executor has opened {store} of chain {chain!r} yet")
            parts.setdefault(owner, []).append(store)
        return {owner: tuple(mine) for owner, mine in parts.items()}

    def chains_on(self, executor: str) -> frozenset[ChainUid]:
        """Return the chains of which an executor has, or is about to have, state."""
        return frozenset(chain for (chain, _), owner in self._opening.items() if owner == executor)

    def of_operator(self, chain: ChainUid, operator: int) -> dict[int, str]:
        """Return the owner of each partition of an operator of a chain that is open, or about to be."""
        found = {}
        for (each, store), owner in self._opening.items():
            _, number, partition, *_ = store.split("/")
            if each == chain and int(number) == operator:
                found[int(partition)] = owner
        return found

    def counts(self) -> dict[str, Counts]:
        """Return the numbers of open partitions and stores on each executor that has any."""
        stores: dict[str, list[tuple[ChainUid, str]]] = {}
        for (chain, store), owner in self._opened.items():
            stores.setdefault(owner, []).append((chain, store))
        return {
            owner: Counts(len({(chain, *store.split("/")[:3]) for chain, store in mine}), len(mine))
            for owner, mine in stores.items()
        }
