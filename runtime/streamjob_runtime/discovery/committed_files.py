"""Lists the output of a plain query as Spark's readers do: the files that its log names, and no others."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from streamjob.store.base import ObjectMissing, StoreUnavailable
from streamjob.stored.sparks_output import named_files, needed_entries
from streamjob_runtime.discovery.objects import Found, Lister, Page


class CommittedFiles:
    """Lists what the log names; see `objects.Lister`.

    The first listing is that of all files, of which it returns those that the log named before. Each later one asks for
    the files that the log has named since.

    Args:
        names: returns the names of the log's entries.
        read: returns the content of an entry; raises ObjectMissing if it is gone.
        key_of: returns the key of a file from its URI in the log.
        lister: lists all files.
        find: returns a file of the source by its key; None if it is gone, or not the source's.
    """

    def __init__(
        self,
        names: Callable[[], Iterable[str]],
        read: Callable[[str], bytes],
        key_of: Callable[[str], str],
        lister: Lister,
        find: Callable[[str], Found | None],
    ) -> None:
        self._names = names
        self._read = read
        self._key_of = key_of
        self._lister = lister
        self._find = find
        self._committed: set[str] = set()
        self._last = -1
        self._is_listed = False

    def page(self, after: str) -> Page:
        """Return the committed files of a page of all files; then those committed since, on the one page.

        Raises:
            UnknownSinkLog: the log is not as Spark writes it.
            StoreError: the place cannot be read now.
        """
        if not after:
            new, last = self._named_since()
            if self._is_listed:
                found = [each for key in new if (each := self._find(key)) is not None]
            self._committed.update(new)
            self._last = last
            if self._is_listed:
                return Page(found, None)
        page = self._lister.page(after)
        self._is_listed = page.end is None
        return Page([each for each in page.objects if each.key in self._committed], page.end)

    def _named_since(self) -> tuple[list[str], int]:
        """Return the keys of files that entries behind the last one name for the first time, and the last entry."""
        try:
            entries = needed_entries(self._names())
        except FileNotFoundError:
            entries = []
        last = -1 if not entries else int(entries[-1].partition(".")[0])
        if last < self._last:
            raise ObjectMissing(
                "the log of the query that has written the files is gone",
                "nothing, if the directory was adopted: the next attempt reads all files there",
            )
        named: dict[str, bool] = {}
        for name in entries:
            if int(name.partition(".")[0]) > self._last:
                named |= {self._key_of(uri): added for uri, added in named_files(name, self._content(name))}
        return [key for key, added in named.items() if added and key not in self._committed], last

    def _content(self, name: str) -> bytes:
        try:
            return self._read(name)
        except ObjectMissing as error:
            # Spark removes entries some time after it has compacted them.
            raise StoreUnavailable(f"{error.what}: the query has compacted its log") from error
