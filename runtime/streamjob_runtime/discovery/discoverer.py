"""Looks for new objects of a source while its query runs, and offers them to it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from streamjob.clock import Clock
from streamjob.errors import StreamJobError
from streamjob.job.connectors.file_source import FileSourceFields
from streamjob.store.base import StoreUnavailable
from streamjob_runtime.discovery.after_reading import AfterReading
from streamjob_runtime.discovery.entries import adopt, compact, last_entry, load, read_entry
from streamjob_runtime.discovery.known import NEVER, Known
from streamjob_runtime.discovery.notifications import Notifications
from streamjob_runtime.discovery.objects import Classified, Found, Refused

_BUSY_SECONDS, _IDLE_SECONDS, _COOLING_SECONDS = 5.0, 60.0, 300.0
"""Between two checks while objects come and while none comes, and how long after the last one that is."""
_OFTEN_SECONDS, _SHARE = 0.25, 5
"""Between two checks of a directory, and how many times as long as a check took at least."""
_NET_SECONDS = 300.0
"""Between two checks of a source with a queue, which find those objects that no notification has told."""
_MOST_WAITING, _SLICE = 20_000, 5_000
"""Files that may wait for a batch before more are offered, and how many are offered at once."""
_LOOK_SECONDS = 0.2
_TENDING_SECONDS = 1.0
_LOG = logging.getLogger(__name__)


class Inbox(Protocol):
    """Takes files for a query: `FileInbox.java`."""

    def offer(self, lines: str) -> None: ...
    def size(self) -> int: ...
    def fail(self, message: str) -> None: ...
    def report(self, more: Mapping[str, str]) -> None: ...
    def committed(self) -> int: ...


Check = Callable[[Known, float], Iterator[Classified]]
"""Yields what is new, a page after the other, given what is known and the time."""


class ReplacedBeforeRead(StreamJobError):
    """An object was replaced before a batch with it was committed; the next attempt reads the new one."""


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


class Discoverer:
    """Finds the objects of one reading of a source, on a thread of its own.

    Args:
        who: the source, at the beginning of a message.
        search: returns what finds the objects, given those that were read last, and how many are known.
        inbox: takes those that are to be read.
        folder: its folder below `sources/`.
        of_spark: the last entry there that Spark's own stream has read, if the source goes on behind it; else None.
        clock: seconds since 1970.
        whole: the objects of a bounded source, all that it reads; None for one that goes on.
        once: whether it ends with the first check.
        cheap: whether listing costs little, so that each check lists all there is.
        after: removes the objects after reading; None if they stay.
        queue: tells of new objects; None for listings alone.
    """

    def __init__(
        self,
        *,
        who: str,
        search: Callable[[Sequence[Found], int], Check],
        inbox: Inbox,
        judge: Judge,
        given: FileSourceFields,
        folder: Path,
        of_spark: int | None = None,
        clock: Clock,
        whole: Sequence[Found] | None = None,
        once: bool = False,
        cheap: bool = False,
        after: AfterReading | None = None,
        queue: Notifications | None = None,
    ) -> None:
        self._who = who
        self._inbox = inbox
        self._judge = judge
        self._given = given
        self._folder = folder
        self._clock = clock
        self._whole = whole
        self._once = once
        self.checks = 0
        """How many checks have ended."""
        self._cheap = cheap
        # Seconds that the last check took, and those of it in which files waited for the query.
        self._took = self._blocked = 0.0
        self._after = after
        self._queue = queue
        self._next_check = 0.0
        self._next_tending = 0.0
        # The last entry that a completed checkpoint has.
        self._completed = -1
        if of_spark is None:
            # The entries behind the last batch are read by the next one.
            self._compacted = last_entry(folder)
            self._known, recent = load(folder, self._compacted)
        else:
            self._compacted = of_spark
            self._known, recent = adopt(folder, of_spark), []
        if len(self._known):
            # The first start reads objects of any age.
            self._forget()
        self._search = search(recent, len(self._known))
        self._changed: set[str] = set()
        # Keys that were offered and that no batch has read yet; and the last entry that one has, by the chain and here.
        self._waiting: set[str] = set()
        self._read = self._noted = self._compacted
        self._last_found = clock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"discovery-{folder.name}", daemon=True)

    def start(self) -> None:
        """Begin to look for objects; those of a bounded source are offered before it returns."""
        if self._whole is not None:
            self._offer(self._known.classify(self._whole).new, waits=False)
        self._thread.start()
        if self._after is not None:
            self._after.start()

    @property
    def is_read(self) -> bool:
        """Whether it looks for no more objects, and batches have taken all of them."""
        return self._has_found_all and self._inbox.size() == 0

    @property
    def _has_found_all(self) -> bool:
        return self._whole is not None or (self._once and self.checks > 0)

    def covered(self, entry: int, completed: int) -> None:
        """Note the last entry that all retained checkpoints have read, and the newest one; returns at once."""
        self._completed = completed
        if self._after is not None:
            self._after.covered(entry)

    def was_read(self, entry: int) -> None:
        """Note that a batch has read all entries up to this one; returns at once."""
        self._read = entry

    def stop(self) -> None:
        """Look for no more objects, and remove none."""
        self._stopped.set()
        if self._after is not None:
            self._after.stop()

    def _run(self) -> None:
        pause = 0.0
        while not self._stopped.wait(pause):
            try:
                began = self._clock()
                if not self._has_found_all and (self._queue is None or began >= self._next_check):
                    self._blocked = 0.0
                    self._check()
                    self._took = self._clock() - began - self._blocked
                    self.checks += 1
                    self._next_check = self._clock() + self._pause()
                if self._queue is not None:
                    self._receive(self._queue)
                self._compact()
                pause = 0.0 if self._queue is not None else self._pause()
            except StoreUnavailable as error:
                # The query goes on with what it has; the next check finds what this one did not.
                _LOG.warning("%s: %s", self._who, error.what)
                pause = min(self._given.check_interval or _BUSY_SECONDS, _IDLE_SECONDS)
            except Refused as error:
                self._fail(error.text)
                return
            except StreamJobError as error:
                self._fail(f"{self._who}: {error.what}: {error.fix}")
                return
            except Exception as error:
                _LOG.exception("%s: the search for objects ended", self._who)
                self._fail(f"{self._who}: {error!r}")
                return

    def _fail(self, message: str) -> None:
        # A name of a file may be no text, which cannot be handed to Java.
        self._inbox.fail(message.encode("utf-8", "replace").decode())

    def _check(self) -> None:
        found: list[Found] = []
        try:
            for part in self._search(self._known, self._clock()):
                found += self._accepted(part)
                if self._given.order == "name":
                    self._offer(found)
                    found = []
                if self._stopped.is_set():
                    break
        finally:
            # Also if S3 does not answer in the middle: what is known is not found again.
            self._offer(sorted(found, key=lambda each: (each.modified_ms, each.key)))
        self._forget()
        self._report()

    def _receive(self, queue: Notifications) -> None:
        """Take the objects that the queue tells of; wait for some until the next check."""
        found = queue.receive(max(0.0, self._next_check - self._clock()))
        self._offer(sorted(self._accepted(self._known.classify(found)), key=lambda each: (each.modified_ms, each.key)))
        self._report()

    def _accepted(self, part: Classified) -> list[Found]:
        """Return the objects that are to be read, which are known from now on."""
        wanted = [*part.new, *self._taken(part.replaced)]
        for each in wanted:
            self._judge.placed(each)
            self._known.add(each)
        return wanted

    def _report(self) -> None:
        changed = self._changed
        figures = {"filesChanged": str(len(changed)), "changedFile": min(changed)} if changed else {}
        if self._queue is not None and self._queue.refused:
            figures["messagesRefused"] = str(self._queue.refused)
        self._inbox.report(figures)

    def _taken(self, replaced: Iterable[Found]) -> list[Found]:
        """Return the other versions of objects that are to be read as well."""
        taken = []
        for each in replaced:
            self._note_read()
            if each.key in self._waiting:
                raise ReplacedBeforeRead(
                    f"{each.key} was replaced before it was read", "nothing: the next attempt reads it as it is then"
                )
            if self._given.on_replaced == "fail":
                self._judge.replaced(each)
            if self._given.on_replaced == "read":
                taken.append(each)
            else:
                self._changed.add(each.key)
        return taken

    def _offer(self, found: Sequence[Found], *, waits: bool = True) -> None:
        """Offer objects, a slice after the other as the query reads them."""
        self._waiting.update(each.key for each in found)
        for begin in range(0, len(found), _SLICE):
            began = self._clock()
            while waits and self._inbox.size() > _MOST_WAITING and not self._stopped.wait(_LOOK_SECONDS):
                self._compact()
            self._blocked += self._clock() - began
            part = found[begin : begin + _SLICE]
            self._inbox.offer("\n".join(self._judge.line(each) for each in part))
            self._last_found = self._clock()

    def _forget(self) -> None:
        if self._given.forget_after is not None:
            self._known.forget(self._horizon_ms())

    def _horizon_ms(self) -> int:
        age = self._given.forget_after
        return NEVER if age is None else round((self._clock() - age) * 1000)

    def _note_read(self) -> None:
        # Spark commits a batch only when it plans the next one.
        for number in range(self._noted + 1, max(self._read, self._inbox.committed()) + 1):
            self._waiting.difference_update(each.key for each in read_entry(self._folder, number))
            self._noted = number

    def _compact(self) -> None:
        committed = self._inbox.committed()
        self._note_read()
        if committed > self._compacted:
            keep_names = None if self._after is None else self._after.list_until
            compact(self._folder, committed, self._horizon_ms(), keep_names)
            self._compacted = committed
        if self._queue is not None and self._clock() >= self._next_tending:
            self._next_tending = self._clock() + _TENDING_SECONDS
            try:
                self._queue.tend(self._waiting, self._noted, self._completed)
            except StoreUnavailable as error:
                # What was found is offered all the same; the messages come again.
                _LOG.warning("%s: %s", self._who, error.what)

    def _pause(self) -> float:
        if self._whole is not None:
            return _BUSY_SECONDS
        if self._given.check_interval is not None:
            return self._given.check_interval
        if self._queue is not None:
            return _NET_SECONDS
        if self._cheap:
            return min(_IDLE_SECONDS, max(_OFTEN_SECONDS, _SHARE * self._took))
        quiet = self._clock() - self._last_found
        return _BUSY_SECONDS if quiet < _COOLING_SECONDS else _IDLE_SECONDS
