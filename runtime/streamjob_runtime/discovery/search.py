"""Decides what to list next: new objects are found soon by few requests, and all others in time.

Producers write into a few directories at a time, mostly under names that ascend. So each check reads on in the
directory with the newest object and in the one with the greatest key, which also finds the directories behind it; and
now and then in the other newest ones. A sweep lists everything meanwhile, a few pages a check, for what came late or
was replaced. After a restart, and if it finds new objects in other directories, it goes on as fast as it may.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from heapq import nlargest
from itertools import groupby
from math import inf

from streamjob_runtime.discovery.known import Known
from streamjob_runtime.discovery.objects import Classified, Found, Lister, Page, pages

_NEWEST = 8
"""Directories that are read on."""
_SMALL = 2
"""Pages of a listing that each check reads as a whole."""


def check_all(lister: Lister, known: Known, now: float) -> Iterator[Classified]:
    """Yield what is new of everything, where listing costs little; arguments and errors as for `Search.check`."""
    for page in pages(lister):
        yield known.classify(page.objects)


class Search:
    """Knows where new objects of a source appear; after a restart, it lists everything again.

    Args:
        recent: the objects that were found last, a thousand or more if there are as many; none before the first check.
        number_known: how many objects were found.
        list_all_every: seconds in which the sweep lists everything once.
        page_size: objects in a page, at most.
    """

    def __init__(
        self,
        recent: Sequence[Found] = (),
        number_known: int = 0,
        list_all_every: float = 86_400.0,
        page_size: int = 1000,
    ) -> None:
        self._every = list_all_every
        self._page_size = page_size
        self._directories: dict[str, _Directory] = {}
        self._number = number_known
        self._is_first = not recent
        self._idle = 0
        # Of the sweep: where it is, since when, its pages so far and in all, whether it or the one before found what
        # would not have been found otherwise.
        self._cursor = ""
        self._began: float | None = None
        self._swept = 0
        self._pages = number_known // page_size + 1
        self._finds = self._found_before = False
        # Whether all is still to be listed once after a restart: where these are frequent, no other sweep ends.
        self._goes_on = bool(recent)
        for name, group in groupby(sorted(recent, key=lambda each: (_directory_of(each), each.key)), _directory_of):
            objects = list(group)
            directory = self._directories[name] = _Directory(name, is_cut=True)
            for each in objects:
                directory.add(each, True, max(1, min(page_size, len(objects)) // 2))
        self._forget_directories()

    def check(self, lister: Lister, known: Known, now: float, budget: int = 100) -> Iterator[Classified]:
        """Yield what is new, a page after the other; the caller adds each to what is known before it asks for the next.

        The first check lists everything. One that is ended early goes on in the next.

        Args:
            now: seconds.
            budget: requests, at most; those of the first check, and of a sweep that is to end in time, are not counted.

        Raises:
            StoreError: S3 refuses, or does not answer.
        """
        if self._began is None:
            self._began = now
        found, left = 0, budget
        if self._is_first or self._pages <= _SMALL:
            if not self._is_first:
                self._restart_sweep(now)
            for checked in self._sweep(lister, known, now, inf if self._is_first else budget):
                found += len(checked.new)
                yield checked
        else:
            for checked in self._read_on(lister, known, budget):
                found += len(checked.new)
                left -= 1
                yield checked
            for checked in self._sweep(lister, known, now, self._due(now, left)):
                found += len(checked.new)
                yield checked
        self._idle = 0 if found else self._idle + 1

    def _read_on(self, lister: Lister, known: Known, budget: int) -> Iterator[Classified]:
        """Read on in the directories where new objects are likely."""
        directories = self._directories.values()
        if not directories:
            return
        likely = {max(directories, key=_newest), max(directories, key=_greatest)}
        likely.update(each for each in directories if each.resume is not None)
        found = 0
        for some in (likely, set(directories) - likely):
            # Where nothing has come for long, the others are read after 1, 2, 4, … checks.
            if some is not likely and not found and self._idle & (self._idle - 1):
                return
            end: str | None = ""
            for directory in sorted(some, key=lambda each: each.start(self._page_size)):
                last = _greatest(directory)[0]
                while end is not None and end <= last:
                    directory.resume = max(directory.start(self._page_size), end)
                    if budget <= 0:
                        return
                    budget -= 1
                    page = lister.page(directory.resume)
                    checked = self._take(page, directory.resume, known)
                    found += len(checked.new)
                    end = directory.resume = page.end
                    if end is not None and end > last and any(each.key > last for each in checked.new):
                        last = end
                    yield checked
                directory.resume = None

    def _sweep(self, lister: Lister, known: Known, now: float, pages: float) -> Iterator[Classified]:
        """List everything, from where the sweep is."""
        while pages > 0:
            read_on = set(self._directories)
            page = lister.page(self._cursor)
            checked = self._take(page, self._cursor, known)
            self._swept += 1
            self._pages = max(self._pages, self._swept)
            if not self._is_first:
                self._finds |= any(_directory_of(each) not in read_on for each in checked.new)
            self._cursor = page.end or ""
            pages = pages - 1 if page.end is not None else 0
            if page.end is None:
                self._pages, self._is_first, self._goes_on = self._swept, False, False
                self._restart_sweep(now)
            yield checked

    def _restart_sweep(self, now: float) -> None:
        self._cursor, self._swept, self._began = "", 0, now
        self._found_before, self._finds = self._finds, False

    def _due(self, now: float, left: int) -> int:
        """Return how many pages the sweep lists now, with so many requests left."""
        part = (now - (self._began or 0)) / self._every
        due = int(part * max(self._pages, self._number / self._page_size)) + 1 - self._swept
        # The first check has what came while the job was down, and does not wait for the sweep.
        at_once = part >= 1 or self._finds or self._found_before or (self._goes_on and part > 0)
        return max(due, left if at_once else 0)

    def _take(self, page: Page, after: str, known: Known) -> Classified:
        classified = known.classify(page.objects)
        new = {each.key for each in classified.new}
        self._number += len(new)
        for each in page.objects:
            name = _directory_of(each)
            directory = self._directories.get(name)
            if directory is None:
                directory = self._directories[name] = _Directory(name, is_cut=after > name)
            directory.add(each, each.key in new, max(1, self._page_size // 2))
        self._forget_directories()
        return classified

    def _forget_directories(self) -> None:
        if len(self._directories) > _NEWEST + 1:
            directories = self._directories.values()
            kept = {*nlargest(_NEWEST, directories, key=_newest), max(directories, key=_greatest)}
            self._directories = {each.name: each for each in kept}


class _Directory:
    """A directory in which objects appeared, and whether their names ascend with time.

    Its greatest names are kept, as many as half a page holds. Reading on begins at the first of them, so that they may
    come in any order. An object is late if it comes before these, or is older than one that was left behind.
    """

    def __init__(self, name: str, is_cut: bool) -> None:
        self.name = name
        self.newest_ms = 0
        self.resume: str | None = None
        """Where a check that ran out of requests goes on; None if it came to the end."""
        self.last: list[tuple[str, int]] = []
        """The greatest keys, with the times at which their objects were written."""
        self._is_cut = is_cut
        self._number = 0
        self._late = 0
        self._passed_ms = 0

    def add(self, found: Found, is_new: bool, kept: int) -> None:
        """Take note of an object; keep so many of the greatest keys."""
        self.newest_ms = max(self.newest_ms, found.modified_ms)
        place = bisect_left(self.last, (found.key,))
        if place < len(self.last) and self.last[place][0] == found.key:
            return
        if place == 0 and self.last and self._is_cut:
            self._late += is_new
            return
        self._number += 1
        self.last.insert(place, (found.key, found.modified_ms))
        if len(self.last) > kept:
            self._is_cut = True
            self._passed_ms = max(self._passed_ms, self.last.pop(0)[1])
            self._late += self.last[-1][1] < self._passed_ms

    def start(self, page_size: int) -> str:
        """Return the key after which to read on."""
        if self.resume is not None:
            return self.resume
        ascends = self._late <= self._number // (2 * page_size)
        return self.last[0][0] if self._is_cut and ascends else self.name


def _directory_of(found: Found) -> str:
    return found.key[: found.key.rfind("/") + 1]


def _newest(directory: _Directory) -> tuple[int, str]:
    return directory.newest_ms, directory.name


def _greatest(directory: _Directory) -> tuple[str, int]:
    return directory.last[-1]
