"""A store with simulated failures."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from pathlib import Path
from random import Random
from typing import TypeAlias, TypeVar

from streamjob.ids import Key
from streamjob.store.base import ObjectInfo, Store, StoreUnavailable

_T = TypeVar("_T")


class Fault(Enum):
    """The ways in which a call to a store fails; the caller sees StoreUnavailable in both cases."""

    BEFORE = "before"
    """The store answers 503, and nothing was done."""
    AFTER = "after"
    """The call times out after it was applied; the result of a read is lost."""


FaultPlan: TypeAlias = Callable[[str, str], Fault | None]
"""Returns the fault of a call, given the method and the key or prefix (the first of several keys)."""


class ScriptedFaults:
    """Faults in the order of the calls, then none. If `verbs` is given, other calls succeed and are not counted."""

    def __init__(self, faults: Iterable[Fault | None], *, verbs: Iterable[str] = ()) -> None:
        self._faults = deque(faults)
        self._verbs = frozenset(verbs)

    def __call__(self, verb: str, key: str) -> Fault | None:
        """Return the fault of the next call."""
        if not self._faults or (self._verbs and verb not in self._verbs):
            return None
        return self._faults.popleft()


class RandomFaults:
    """Random faults: each call fails with probability `rate`, half of them after it was applied."""

    def __init__(self, random: Random, rate: float) -> None:
        self._random = random
        self._rate = rate

    def __call__(self, verb: str, key: str) -> Fault | None:
        """Return the fault of the next call."""
        return self._random.choice(tuple(Fault)) if self._random.random() < self._rate else None


class FaultyStore:
    """A store whose calls fail according to a plan; `calls` counts them by method.

    Args:
        inner: the underlying store.
        plan: called before each call, under a lock; by default nothing fails.
    """

    def __init__(self, inner: Store, plan: FaultPlan = lambda verb, key: None) -> None:
        self._inner = inner
        self._lock = threading.Lock()
        self.plan = plan
        self.calls: Counter[str] = Counter()

    @property
    def uri(self) -> str:
        """The inner store's root."""
        return self._inner.uri

    def get(self, key: Key) -> bytes:
        """Return an object's content."""
        return self._call("get", key, lambda: self._inner.get(key))

    def get_range(self, key: Key, offset: int, length: int) -> bytes:
        """Return a part of an object's content."""
        return self._call("get_range", key, lambda: self._inner.get_range(key, offset, length))

    def download(self, key: Key, target: Path) -> None:
        """Write an object's content to a file."""
        self._call("download", key, lambda: self._inner.download(key, target))

    def put(self, key: Key, content: bytes | Path) -> None:
        """Create or replace an object."""
        self._call("put", key, lambda: self._inner.put(key, content))

    def put_if_absent(self, key: Key, content: bytes) -> bool:
        """Create an object unless one exists."""
        return self._call("put_if_absent", key, lambda: self._inner.put_if_absent(key, content))

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield objects; a failure comes before the first one."""
        yield from self._call("list", prefix, lambda: tuple(self._inner.list(prefix, start_after)))

    def delete(self, keys: Iterable[Key]) -> None:
        """Delete objects."""
        doomed = tuple(keys)
        self._call("delete", doomed[0] if doomed else "", lambda: self._inner.delete(doomed))

    def close(self) -> None:
        """Close the inner store; never fails."""
        self._inner.close()

    def _call(self, verb: str, key: str, action: Callable[[], _T]) -> _T:
        with self._lock:
            self.calls[verb] += 1
            fault = self.plan(verb, key)
        if fault is Fault.BEFORE:
            raise StoreUnavailable(f"{self.uri}{key} cannot be reached ({verb})")
        result = action()
        if fault is Fault.AFTER:
            raise StoreUnavailable(f"{self.uri}{key} did not answer in time ({verb})")
        return result
