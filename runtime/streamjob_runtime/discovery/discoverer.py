"""Looks for new objects of a source while its query runs, and offers them to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from streamjob.clock import Clock
from streamjob.job.connectors.bucket_source import BucketSourceFields
from streamjob_runtime.discovery.entries import load
from streamjob_runtime.discovery.known import NEVER
from streamjob_runtime.discovery.objects import Found, Lister
from streamjob_runtime.discovery.search import Search
from streamjob_runtime.discovery.search_thread import Inbox, SearchThread


class Judge(Protocol):
    """Decides about objects that a source finds; raises Refused for one that ends the query."""

    def line(self, found: Found) -> str:
        """Return a new object as an entry of the source's log has it."""
        ...

    def placed(self, found: Found) -> None:
        """Accept the directories of a new object."""
        ...

    def replaced(self, found: Found) -> None:
        """Accept that an object was read, and has another version now."""
        ...


class Discoverer(SearchThread):
    """Finds the objects of one reading of a source in a bucket.

    Args:
        who: the source, at the beginning of a message.
        lister: lists the source's objects.
        inbox: takes those that are to be read.
        judge: decides about objects.
        given: the source's options.
        folder: its folder below `sources/`.
        clock: seconds since 1970.
        whole: the objects of a bounded source, all that it reads; None for one that goes on.
    """

    def __init__(
        self,
        *,
        who: str,
        lister: Lister,
        inbox: Inbox,
        judge: Judge,
        given: BucketSourceFields,
        folder: Path,
        clock: Clock,
        whole: Sequence[Found] | None = None,
    ) -> None:
        super().__init__(who=who, inbox=inbox, folder=folder, clock=clock, check_interval=given.check_interval)
        self._lister = lister
        self._judge = judge
        self._given = given
        self._whole = whole
        self._known, recent = load(folder, self._compacted)
        self._search = Search.of(recent, len(self._known), given.list_all_every)
        self._changed: set[str] = set()
        self._too_old: set[str] = set()

    def start(self) -> None:
        """Begin to look for objects; those of a bounded source are offered before it returns."""
        if self._whole is not None:
            self._offer(self._known.classify(self._whole).new)
        super().start()

    def _check(self) -> None:
        if self._whole is not None:
            return
        found: list[Found] = []
        try:
            for part in self._search.check(self._lister, self._known, self._clock()):
                wanted = [*part.new, *self._taken(part.replaced)]
                for each in wanted:
                    self._judge.placed(each)
                    self._known.add(each)
                found += wanted
                self._too_old.update(each.key for each in part.too_old)
                if self._given.order == "name":
                    self._offer(found)
                    found = []
                    self._wait_for_room()
                if self._stopped.is_set():
                    break
        finally:
            # Also if S3 does not answer in the middle: what is known is not found again.
            self._offer(sorted(found, key=lambda each: (each.modified_ms, each.key)))
        if self._given.forget_after is not None:
            self._known.forget(self._forget_before_ms())
        figures: dict[str, str] = {}
        for name, one, keys in (
            ("filesChanged", "changedFile", self._changed),
            ("filesTooOld", "tooOldFile", self._too_old),
        ):
            if keys:
                figures |= {name: str(len(keys)), one: min(keys)}
        self._inbox.report(figures)

    def _taken(self, replaced: Iterable[Found]) -> list[Found]:
        """Return the other versions of objects that are to be read as well."""
        taken = []
        for each in replaced:
            if self._given.on_replaced == "fail":
                self._judge.replaced(each)
            if self._given.on_replaced == "read":
                taken.append(each)
            else:
                self._changed.add(each.key)
        return taken

    def _offer(self, found: Sequence[Found]) -> None:
        if found:
            self._inbox.offer("\n".join(self._judge.line(each) for each in found))
            self._offered()

    def _forget_before_ms(self) -> int:
        horizon = self._given.forget_after
        return NEVER if horizon is None else round((self._clock() - horizon) * 1000)
