"""Lists the files of a directory in the order of their keys, and enters only the directories that may have some.

A bucket is asked for pages of keys. A file system has only directories, and each is cheap to list: so each check of
such a source lists all of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from operator import itemgetter
from pathlib import Path
from stat import S_ISREG
from typing import TypeAlias

from streamjob.errors import InvalidInput
from streamjob_runtime.discovery.hadoop_directories import HadoopEntry
from streamjob_runtime.discovery.objects import Found, Page
from streamjob_runtime.discovery.patterns import SourceFiles, UnreadableKey


class UnreadableDirectory(InvalidInput):
    """A directory of a source does not exist, or cannot be listed."""


Entry: TypeAlias = os.DirEntry[str] | HadoopEntry
Stat: TypeAlias = os.stat_result | HadoopEntry
Scan = Callable[[str], Iterable[Entry]]
"""Returns what is in a directory; raises FileNotFoundError, NotADirectoryError and other OSErrors."""


class DirectoryLister:
    """Lists the files of a source in a file system; see `objects.Lister`.

    Args:
        files: which files are the source's.
        scan: lists a directory.
        stat: returns what is known of a file; raises FileNotFoundError.
        page_size: files of a page, which are in memory at once.
    """

    def __init__(
        self,
        files: SourceFiles,
        scan: Scan = os.scandir,
        stat: Callable[[str], Stat] = os.stat,
        page_size: int = 1_000,
    ) -> None:
        self._files = files
        self._scan = scan
        self._stat = stat
        self._page_size = page_size
        # Where the last page ended, and what comes behind it.
        self._end: str | None = None
        self._walk: Iterator[Found] = iter(())

    def page(self, after: str) -> Page:
        """Return the files whose URIs sort after `after`.

        Raises:
            UnreadableDirectory: a directory cannot be listed.
            UnreadableKey: the name of a file is not in UTF-8.
        """
        if after != self._end:
            self._walk = self._all(after.removeprefix(self._files.base))
        found = list(islice(self._walk, self._page_size))
        self._end = found[-1].key if len(found) == self._page_size else None
        return Page(found, self._end)

    def changed(self, read: Iterable[Found]) -> Found | None:
        """Return the first file that is another one now, or gone; None without one."""
        for each in read:
            status = self._status(each.key)
            now = None if status is None else self._found(each.key, status)
            if now is None or (now.size, now.version) != (each.size, each.version):
                return each
        return None

    def find(self, key: str) -> Found | None:
        """Return a file of the source as it is now; None if it is gone, or none of the source."""
        status = self._status(key)
        found = None if status is None else self._found(key, status)
        own = found is not None and self._files.is_of_source(key.removeprefix(self._files.base), found.modified_ms)
        return found if own else None

    def exists(self) -> bool:
        """Return whether the directory or file is there that the path names."""
        return self._status(self._files.base + self._files.prefix.rpartition("/")[0]) is not None

    def _status(self, path: str) -> Stat | None:
        try:
            return self._stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _unreadable(path, error) from error

    def _all(self, after: str) -> Iterator[Found]:
        named = self._files.named
        status = None if named is None else self._status(self._files.base + named)
        if named is not None and status is not None and S_ISREG(status.st_mode):
            found = self._found(self._files.base + named, status)
            if named > after and self._files.is_of_source(named, found.modified_ms):
                yield found
            return
        yield from self._below(self._files.prefix[: self._files.prefix.rfind("/") + 1], after)

    def _below(self, directory: str, after: str) -> Iterator[Found]:
        path = self._files.base + directory
        try:
            entries = [
                (f"{directory}{each.name}{'/' if _is_directory(each) else ''}", each) for each in self._scan(path)
            ]
        except (FileNotFoundError, NotADirectoryError):
            # A job goes on if its directory is made anew.
            return
        except OSError as error:
            raise _unreadable(path, error) from error
        # In the order of code points, which is that of UTF-8.
        for key, entry in sorted(entries, key=itemgetter(0)):
            if key.endswith("/"):
                if self._files.enters(key) and (key > after or after.startswith(key)):
                    yield from self._below(key, after)
            elif key > after and (found := self._of_source(key, entry)) is not None:
                yield found

    def _of_source(self, key: str, entry: Entry) -> Found | None:
        """Return a file; None if it is gone, no file, or not the source's."""
        uri = self._files.base + key
        try:
            status = entry.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            if self._files.is_of_source(key, 0):
                raise _unreadable(uri, error) from error
            return None
        found = self._found(uri, status)
        if not S_ISREG(status.st_mode) or not self._files.is_of_source(key, found.modified_ms):
            return None
        if _shown(key) != key:
            raise UnreadableKey(
                f"Spark cannot read {_shown(uri)}: the name is not in UTF-8",
                "rename the file, or leave it out by a narrower path or pathGlobFilter",
            )
        return found

    @staticmethod
    def _found(key: str, status: Stat) -> Found:
        return Found(key, status.st_size, status.st_mtime_ns // 1_000_000, str(status.st_mtime_ns))


def resolved(prefix: str) -> str:
    """Return what the local files of a prefix of keys begin with when no link leads to them."""
    directory, _, begin = f"/{prefix}".rpartition("/")
    return f"{os.path.realpath(directory or '/').rstrip('/')}/{begin}"


def on_one_file_system(*prefixes: str) -> bool:
    """Return whether local directories are on one file system, or will be once they exist."""
    above = (Path(resolved(each), "file").parents for each in prefixes)
    return len({next(each.stat().st_dev for each in parents if each.is_dir()) for parents in above}) == 1


def _is_directory(entry: Entry) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        # A link to itself, or to a place that is closed to the job.
        return False


def _unreadable(path: str, error: OSError) -> UnreadableDirectory:
    return UnreadableDirectory(f"{_shown(path)} cannot be read: {error.strerror}", "let the job list and read it")


def _shown(name: str) -> str:
    return name.encode("utf-8", "replace").decode()
