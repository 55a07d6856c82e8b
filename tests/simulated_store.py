"""A store for simulations, which performs one effect at a time and can fail like real stores."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

from streamjob.ids import Key
from streamjob.store.base import ObjectInfo, ObjectMissing, StoreError, StoreUnavailable
from streamjob.store.effects import Delete, Get, Hash, List, Page, Program, Put, PutIfAbsent, StoreEffect
from streamjob.store.hashing import hash_parts

T = TypeVar("T")


class Outcome(Enum):
    """The fate of an effect. Unless it is done, the caller sees StoreUnavailable."""

    DONE = "done"
    REFUSED = "refused"
    """Nothing is done."""
    REPLY_LOST = "reply lost"
    """It is done, but the caller does not learn it."""
    LATE = "late"
    """It is done later, even if the caller is gone by then. For writes and deletions only; each key separately."""


class SimulatedStore:
    """Objects by key. Listings come in small pages, so that changes can happen between two pages.

    Args:
        root: the absolute URI of the root, with a slash at its end.
        page_size: objects in a page.
    """

    def __init__(self, root: str = "memory:///job/", *, page_size: int = 3) -> None:
        self.root = root
        self.objects: dict[Key, bytes] = {}
        self.late: list[Put | PutIfAbsent | Delete] = []
        self._page_size = page_size

    def perform(self, effect: StoreEffect, outcome: Outcome = Outcome.DONE) -> object:
        """Perform an effect and return its reply. Raises ObjectMissing, and StoreUnavailable if the outcome says so."""
        if outcome is Outcome.DONE:
            return self._apply(effect)
        if outcome is Outcome.REPLY_LOST:
            self._apply(effect)
        elif outcome is Outcome.LATE:
            match effect:
                case Delete(keys):
                    self.late.extend(Delete((key,)) for key in keys)
                case Put() | PutIfAbsent():
                    self.late.append(effect)
        raise StoreUnavailable(f"{effect!r:.80} got no answer")

    def run(self, program: Program[T]) -> T:
        """Run a program without failures and return its result."""
        reply: object = None
        error: Exception | None = None
        while True:
            try:
                effect = program.send(reply) if error is None else program.throw(error)
            except StopIteration as end:
                result: T = end.value
                return result
            reply, error = None, None
            try:
                reply = self.perform(effect)
            except ObjectMissing as raised:
                error = raised

    def land(self, number: int) -> StoreEffect:
        """Apply one of the late effects and return it."""
        effect = self.late.pop(number % len(self.late))
        self._apply(effect)
        return effect

    def _apply(self, effect: StoreEffect) -> object:
        match effect:
            case Get(reference):
                return self._read(Key(reference.removeprefix(self.root)))
            case Put(key, content):
                self.objects[key] = content
                return None
            case PutIfAbsent(key, content):
                if key in self.objects:
                    return False
                self.objects[key] = content
                return True
            case List(prefix, start_after, limit):
                found = sorted(key for key in self.objects if key.startswith(prefix) and key > start_after)
                page = found[: min(limit, self._page_size)]
                return Page(tuple(ObjectInfo(key, len(self.objects[key])) for key in page), len(page) < len(found))
            case Delete(keys):
                for key in keys:
                    self.objects.pop(key, None)
                return None
            case Hash(parts):
                return hash_parts(parts, self._read_range, lambda _: True)

    def _read_range(self, reference: str, offset: int, length: int) -> bytes:
        part = self._read(Key(reference.removeprefix(self.root)))[offset : offset + length]
        if len(part) != length:
            raise StoreError(f"{self.root}{reference} ends before byte {offset + length}")
        return part

    def _read(self, key: Key) -> bytes:
        try:
            return self.objects[key]
        except KeyError:
            raise ObjectMissing(f"{self.root}{key} does not exist") from None
