"""A store that counts its calls."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from streamjob.figures import Figure, Unit
from streamjob.ids import Key
from streamjob.store.base import ObjectInfo, ObjectMissing, Store, StoreError

Verb = Literal["get", "get_range", "download", "put", "put_if_absent", "list", "delete"]
VERBS: tuple[Verb, ...] = ("get", "get_range", "download", "put", "put_if_absent", "list", "delete")
_REMEMBERED = 100


@dataclass(frozen=True, slots=True)
class VerbCount:
    """The calls of one method of a store.

    `requests` counts calls, including failed ones; a multipart upload or a long listing is one call. `failures` counts
    calls without a usable answer; a missing object is an answer. `bytes` were read or written, and `seconds` is the
    time spent.
    """

    requests: Annotated[int, Figure("store_requests_total", text="Calls of the snapshot store.")] = 0
    failures: Annotated[
        int, Figure("store_failures_total", text="Calls of the snapshot store without a usable answer.")
    ] = 0
    bytes: Annotated[
        int, Figure("store_bytes_total", Unit.BYTES, "Bytes read from or written to the snapshot store.")
    ] = 0
    seconds: Annotated[
        float, Figure("store_seconds_total", Unit.SECONDS, "Time spent in calls of the snapshot store.")
    ] = 0.0


@dataclass(frozen=True, slots=True)
class StoreFailure:
    """A call of the store without a usable answer: the time by the store's clock, the method and the error."""

    time: float
    verb: Verb
    message: str


class MeteredStore:
    """Passes every call to another store and counts it; may be used from any thread.

    Args:
        store: the underlying store.
        clock: monotonic time in seconds.
    """

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._counts: dict[Verb, VerbCount] = {verb: VerbCount() for verb in VERBS}
        self._failures: deque[StoreFailure] = deque(maxlen=_REMEMBERED)

    def counts(self) -> dict[Verb, VerbCount]:
        """Return the counts so far, for every method."""
        with self._lock:
            return dict(self._counts)

    def failures(self, seconds: float) -> list[StoreFailure]:
        """Return the failures of the last `seconds`, oldest first, at most the last hundred."""
        since = self._clock() - seconds
        with self._lock:
            return [failure for failure in self._failures if failure.time >= since]

    @property
    def uri(self) -> str:
        """The root of the store."""
        return self._store.uri

    def get(self, key: Key) -> bytes:
        """Return an object's content. Raises ObjectMissing."""
        with self._call("get") as call:
            content = self._store.get(key)
            call.bytes = len(content)
        return content

    def get_range(self, key: Key, offset: int, length: int) -> bytes:
        """Return a part of an object. Raises ObjectMissing, and StoreError if the object is shorter."""
        with self._call("get_range") as call:
            content = self._store.get_range(key, offset, length)
            call.bytes = len(content)
        return content

    def download(self, key: Key, target: Path) -> None:
        """Write an object's content to a file. Raises ObjectMissing."""
        with self._call("download") as call:
            self._store.download(key, target)
            call.bytes = target.stat().st_size

    def put(self, key: Key, content: bytes | Path) -> None:
        """Create or replace an object."""
        with self._call("put") as call:
            # Read the size before the call: Spark may delete a checkpoint file as soon as it is stored.
            size = content.stat().st_size if isinstance(content, Path) else len(content)
            self._store.put(key, content)
            call.bytes = size

    def put_if_absent(self, key: Key, content: bytes) -> bool:
        """Create an object unless one exists; return whether this call created it."""
        with self._call("put_if_absent") as call:
            created = self._store.put_if_absent(key, content)
            call.bytes = len(content) if created else 0
        return created

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects below a prefix, in key order; time between two of them is the caller's."""
        with self._call("list"):
            objects = iter(self._store.list(prefix, start_after))
        while True:
            with self._call("list", counted=False):
                found = next(objects, None)
            if found is None:
                return
            yield found

    def delete(self, keys: Iterable[Key]) -> None:
        """Delete objects."""
        with self._call("delete"):
            self._store.delete(keys)

    def close(self) -> None:
        """Close the underlying store; the counts stay."""
        self._store.close()

    @contextmanager
    def _call(self, verb: Verb, *, counted: bool = True) -> Iterator[_Call]:
        call = _Call()
        started = self._clock()
        failed = False
        try:
            yield call
        except ObjectMissing:
            raise
        except (StoreError, OSError) as error:
            failed = True
            with self._lock:
                self._failures.append(StoreFailure(self._clock(), verb, str(error)))
            raise
        finally:
            self._add(verb, int(counted), int(failed), call.bytes, self._clock() - started)

    def _add(self, verb: Verb, requests: int, failures: int, size: int, seconds: float) -> None:
        with self._lock:
            before = self._counts[verb]
            self._counts[verb] = replace(
                before,
                requests=before.requests + requests,
                failures=before.failures + failures,
                bytes=before.bytes + size,
                seconds=before.seconds + seconds,
            )


@dataclass(slots=True)
class _Call:
    bytes: int = 0
