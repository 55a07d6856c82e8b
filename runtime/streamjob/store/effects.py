"""Store operations as values: a step of the protocol is a generator that yields them.

A program yields an effect and receives the reply, or the store's error is thrown into it. So the same program runs on a
real store (`drive`) and in a simulator that interleaves many owners, loses replies and delays writes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias, TypeVar

from streamjob.ids import Key
from streamjob.store.base import ObjectInfo, Store, StoreError
from streamjob.store.hashing import Part, hash_parts

T = TypeVar("T")
E = TypeVar("E")

PAGE_SIZE = 1000
"""Objects in a page of a listing; S3 returns as many per request."""


@dataclass(frozen=True, slots=True)
class Get:
    """Read an object by its key or its absolute URI, inside the store's root or not.

    Reply: bytes; thrown: ObjectMissing.
    """

    reference: str


@dataclass(frozen=True, slots=True)
class Put:
    """Create or replace an object. Reply: None."""

    key: Key
    content: bytes


@dataclass(frozen=True, slots=True)
class PutIfAbsent:
    """Create an object unless one exists. Reply: bool, True if this call created it."""

    key: Key
    content: bytes


@dataclass(frozen=True, slots=True)
class List:
    """List the next objects by key, at most `limit`. Reply: Page."""

    prefix: str
    start_after: str = ""
    limit: int = PAGE_SIZE


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete objects, in any order. Reply: None."""

    keys: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class Hash:
    """Hash parts of objects. Reply: a list of SHA-256 hashes in hexadecimal, None for a part that does not exist.

    `note` describes the work, for progress messages.
    """

    parts: tuple[Part, ...]
    note: str


StoreEffect: TypeAlias = Get | Put | PutIfAbsent | List | Delete | Hash

Program: TypeAlias = Generator[StoreEffect, object, T]
"""A step of the protocol that needs only a store, and returns a T."""

Locate: TypeAlias = Callable[[str], tuple[Store, Key]]
"""Returns the store that holds a referenced object, and its key there, as `streamjob.store.opening.References` does."""


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a listing in key order; `more` is True if objects may follow."""

    objects: tuple[ObjectInfo, ...]
    more: bool


def get(reference: str) -> Program[bytes]:
    """Read an object by its key or its absolute URI. Raises ObjectMissing."""
    reply = yield Get(reference)
    assert isinstance(reply, bytes)
    return reply


def put(key: Key, content: bytes) -> Program[None]:
    """Create or replace an object."""
    yield Put(key, content)


def put_if_absent(key: Key, content: bytes) -> Program[bool]:
    """Create an object unless one exists; return whether this call created it."""
    reply = yield PutIfAbsent(key, content)
    assert isinstance(reply, bool)
    return reply


def list_page(prefix: str, start_after: str = "", limit: int = PAGE_SIZE) -> Program[Page]:
    """Return the next objects, at most `limit`."""
    reply = yield List(prefix, start_after, limit)
    assert isinstance(reply, Page)
    return reply


def list_all(prefix: str, start_after: str = "") -> Program[tuple[ObjectInfo, ...]]:
    """Return all objects, page by page; concurrent changes may or may not be included."""
    found: list[ObjectInfo] = []
    while True:
        page = yield from list_page(prefix, start_after)
        found.extend(page.objects)
        if not page.more or not page.objects:
            return tuple(found)
        start_after = page.objects[-1].key


def delete(keys: tuple[Key, ...]) -> Program[None]:
    """Delete objects; does nothing if there are none."""
    if keys:
        yield Delete(keys)


def drive(
    store: Store,
    program: Generator[StoreEffect | E, object, T],
    *,
    find: Locate | None = None,
    progress: Callable[[str], None] | None = None,
    perform: Callable[[E], object] | None = None,
    guard: AbstractContextManager[object] | None = None,
) -> T:
    """Run a program on a store and return its result. Errors of the store are thrown into the program.

    Args:
        find: finds objects outside the store's root; None if there are none.
        progress: receives a description of work that takes long.
        perform: performs effects that are not the store's, and returns their replies.
        guard: a lock for programs that share memory with other threads. It is held while the program itself runs and
            released while an effect is performed, so it is entered many times.
    """
    held: AbstractContextManager[object] = nullcontext() if guard is None else guard
    reply: object = None
    error: Exception | None = None
    while True:
        try:
            with held:
                effect = program.send(reply) if error is None else program.throw(error)
        except StopIteration as end:
            result: T = end.value
            return result
        reply, error = None, None
        try:
            reply = _perform(store, effect, find, progress, perform)
        except Exception as raised:
            error = raised


def _perform(
    store: Store,
    effect: StoreEffect | E,
    find: Locate | None,
    progress: Callable[[str], None] | None,
    perform: Callable[[E], object] | None,
) -> object:
    match effect:
        case Get(reference):
            holder, key = _find(store, reference, find)
            return holder.get(key)
        case Put(key, content):
            store.put(key, content)
            return None
        case PutIfAbsent(key, content):
            return store.put_if_absent(key, content)
        case List(prefix, start_after, limit):
            objects = tuple(islice(store.list(prefix, start_after), limit))
            return Page(objects, more=len(objects) == limit)
        case Delete(keys):
            store.delete(keys)
            return None
        case Hash():
            if progress is not None:
                progress(effect.note)
            return _hash(store, effect, find)
        case other:
            if perform is None:
                raise TypeError(f"no handler for {other!r}")
            return perform(other)


def _hash(store: Store, effect: Hash, find: Locate | None) -> list[str | None]:
    def read(reference: str, offset: int, length: int) -> bytes:
        holder, key = _find(store, reference, find)
        return holder.get_range(key, offset, length)

    return hash_parts(effect.parts, read, lambda reference: _is_inside(store, reference))


def _find(store: Store, reference: str, find: Locate | None) -> tuple[Store, Key]:
    if _is_inside(store, reference):
        return store, Key(reference.removeprefix(store.uri))
    if find is None:
        raise StoreError(f"{reference} is outside {store.uri} and cannot be read from here")
    return find(reference)


def _is_inside(store: Store, reference: str) -> bool:
    return "://" not in reference or reference.startswith(store.uri)
