"""The output directory of a plain query, whose log names the files that count, and its adoption by a job.

Spark's readers see what `_spark_metadata` names, and nothing else. Entry `<n>` there has the files of batch n, and
`<n>.compact` those of all batches up to n.

An adoption removes the files that no batch has committed, and then the log. It begins with the log by overwriting the
entry that readers begin with, and removes that one last. So readers fail meanwhile instead of seeing less, and an
adoption that is repeated after a kill does not take what is left of the log for the whole.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from streamjob.errors import InvalidInput
from streamjob.ids import Key
from streamjob.store.base import Store
from streamjob.store.files import uri_path

SINK_LOG = "_spark_metadata"

_ENTRY = re.compile(r"(\d+)(?:\.compact)?")
_OF_SPARK = re.compile(r"(?:.*/)?part-\d{5,}-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}[-.][^/]*")
"""The names that Spark's writers give to files; those of a job's are different."""
_ADOPTED = b"adopted by streamjob"
_KEEP = "keep the directory as it is, and let the job write to another one"


class UnknownSinkLog(InvalidInput):
    """The log of a query's output is not as Spark writes it, or names files elsewhere; nothing was removed."""


class NothingToAdopt(InvalidInput):
    """The place does not exist."""


@dataclass(frozen=True, slots=True)
class Adoption:
    """What an adoption does.

    Args:
        committed: the number of files that the log names.
        missing: those of them that do not exist.
        strays: the query's files that the log does not name, which are removed.
        others: the number of other files that readers will see; they stay.
        log: the objects of the log, which are removed.
        first: the entry that readers begin with; None if the log has no entry.
    """

    committed: int
    missing: tuple[Key, ...]
    strays: tuple[Key, ...]
    others: int
    log: tuple[Key, ...]
    first: Key | None


def needed_entries(names: Iterable[str]) -> list[str]:
    """Return the entries of a log that name all files, the oldest first.

    Args:
        names: what is in the directory of the log.

    Raises:
        UnknownSinkLog: an entry is missing.
    """
    entries = _entries(names)
    first = _first(entries)
    if missing := set(range(first, max(entries, default=first - 1) + 1)) - entries.keys():
        raise UnknownSinkLog(f"{SINK_LOG} has no entry {min(missing)}, and later ones", _KEEP)
    return [entries[number] for number in sorted(entries) if number >= first]


def named_files(name: str, content: bytes) -> list[tuple[str, bool]]:
    """Return the URIs of the files that an entry names, and whether each is added, and not deleted.

    Raises:
        UnknownSinkLog: the entry has another format.
    """
    version, *lines = content.decode("utf-8", "replace").split("\n")
    if version != "v1":
        raise UnknownSinkLog(f"{SINK_LOG}/{name} has the unknown version {version[:20]!r}", _KEEP)
    try:
        files = [json.loads(line) for line in lines if line]
        return [(str(each["path"]), {"add": True, "delete": False}[each["action"]]) for each in files]
    except (ValueError, KeyError, TypeError) as error:
        raise UnknownSinkLog(f"{SINK_LOG}/{name} is no entry of Spark's log: {error!r}", _KEEP) from None


def plan_adoption(store: Store) -> Adoption:
    """Return what an adoption would do; nothing if there is no log.

    Args:
        store: at the directory.

    Raises:
        UnknownSinkLog: the log cannot be read, or names files that are not in the directory.
        NothingToAdopt: there is no such directory.
        StoreError: the store failed.
    """
    there = [each.key for each in store.list("")]
    if not there and not (store.uri.startswith("file:") and uri_path(store.uri).is_dir()):
        raise NothingToAdopt(f"{store.uri} does not exist", "name the directory that the query has written to")
    log = tuple(key for key in there if key.startswith(f"{SINK_LOG}/"))
    entries = _entries(key.removeprefix(f"{SINK_LOG}/") for key in log)
    first = Key(f"{SINK_LOG}/{entries[_first(entries)]}") if _first(entries) in entries else None
    # An empty log, or one whose removal has begun, proves of no file that it was not committed.
    begun = not log or (first is not None and store.get(first) == _ADOPTED) or not entries
    names = [] if begun else needed_entries(entries.values())
    named = [each for name in names for each in named_files(name, store.get(Key(f"{SINK_LOG}/{name}")))]
    deleted = {uri for uri, added in named if not added}
    committed = {_key(uri, store.uri) for uri, added in named if added and uri not in deleted}
    rest = [key for key in there if _is_visible(key) and key not in committed]
    strays = () if begun else tuple(key for key in rest if _OF_SPARK.fullmatch(key))
    missing = tuple(sorted(committed.difference(there)))
    return Adoption(len(committed), missing, strays, sum(not _OF_SPARK.fullmatch(key) for key in rest), log, first)


def adopt(store: Store, plan: Adoption) -> None:
    """Remove the strays and then the log; after a kill, plan and adopt again. Raises StoreError."""
    store.delete(plan.strays)
    if plan.first is not None:
        store.put(plan.first, _ADOPTED)
        store.delete(key for key in plan.log if key != plan.first)
        store.delete([plan.first])
    else:
        store.delete(plan.log)
    if store.uri.startswith("file:"):
        with suppress(FileNotFoundError):
            Path(uri_path(store.uri), SINK_LOG).rmdir()
    elif store.uri.startswith("s3:"):
        from streamjob.store.s3 import S3Store

        if isinstance(store, S3Store):
            store.delete_folder(Key(SINK_LOG))


def _entries(names: Iterable[str]) -> dict[int, str]:
    """Return the entries by number; `n.compact` has all that `n` has."""
    return {int(match[1]): name for name in sorted(names) if (match := _ENTRY.fullmatch(name))}


def _first(entries: dict[int, str]) -> int:
    return max((number for number, name in entries.items() if name.endswith(".compact")), default=0)


def _is_visible(key: str) -> bool:
    """Return whether Spark's readers see a file of a directory without a log."""
    return not any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in key.split("/"))


def _key(uri: str, root: str) -> Key:
    """Return the key of a file below a directory."""
    parts = urlsplit(uri)
    path, scheme = unquote(parts.path), re.sub("^s3[an]$", "s3", parts.scheme)
    if scheme in ("", "file"):
        directory, _, name = path.rpartition("/")
        place, top = f"{_resolved(directory)}/{name}", f"{_resolved(str(uri_path(root)))}/" if _is_local(root) else root
    else:
        place, top = f"{scheme}://{parts.netloc}{path}", root
    if not place.startswith(top):
        raise UnknownSinkLog(
            f"{SINK_LOG} names {uri}, which is not below {root}: the directory was moved, or is a copy", _KEEP
        )
    return Key(place.removeprefix(top))


def _is_local(root: str) -> bool:
    return root.startswith("file:")


@lru_cache(1000)
def _resolved(directory: str) -> str:
    return os.path.realpath(directory).rstrip("/")
