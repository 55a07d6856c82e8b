"""What all searches for the files of a source share: their thread, what errors do to it, and how long it pauses."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from streamjob.clock import Clock
from streamjob.errors import StreamJobError
from streamjob.store.base import StoreUnavailable
from streamjob_runtime.discovery.entries import compact, last_entry
from streamjob_runtime.discovery.objects import Refused
from streamjob_runtime.lakes.errors import TableUnreachable

_BUSY_SECONDS, _IDLE_SECONDS, _COOLING_SECONDS = 5.0, 60.0, 300.0
"""Between two checks while files come and while none comes, and how long after the last one that is."""
_MOST_WAITING = 20_000
"""Files that may wait for a batch before more are listed, where they are read in the order of the listing."""
_LOOK_SECONDS = 0.2
_LOG = logging.getLogger(__name__)


class Inbox(Protocol):
    """Takes files for a query: `FileInbox.java`."""

    def offer(self, lines: str) -> None: ...
    def size(self) -> int: ...
    def fail(self, message: str) -> None: ...
    def report(self, more: Mapping[str, str]) -> None: ...
    def committed(self) -> int: ...


class SearchThread(ABC):
    """Finds the files of one reading of a source, on a thread of its own.

    Args:
        who: the source, at the beginning of a message.
        inbox: takes the files that are to be read.
        folder: the source's folder below `sources/`.
        clock: seconds since 1970.
        check_interval: seconds between two checks; None if it depends on whether files come.
    """

    def __init__(
        self, *, who: str, inbox: Inbox, folder: Path, clock: Clock, check_interval: float | None = None
    ) -> None:
        self._who = who
        self._inbox = inbox
        self._folder = folder
        self._clock = clock
        self._interval = check_interval
        # The entries behind the last batch are read by the next one.
        self._compacted = last_entry(folder)
        self._last_found = clock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"discovery-{folder.name}", daemon=True)

    def start(self) -> None:
        """Begin to look for files."""
        self._thread.start()

    def stop(self) -> None:
        """Look for no more files."""
        self._stopped.set()

    @abstractmethod
    def _check(self) -> None:
        """Offer what is new. A StoreUnavailable or TableUnreachable is repeated; any other error ends the query."""

    @abstractmethod
    def _forget_before_ms(self) -> int:
        """Return the time, in ms since 1970, before which files need not be known any more."""

    def _run(self) -> None:
        pause = 0.0
        while not self._stopped.wait(pause):
            try:
                self._check()
                self._compact()
                pause = self._pause()
            except (StoreUnavailable, TableUnreachable) as error:
                # The query goes on with what it has; the next check finds what this one did not.
                _LOG.warning("%s: %s", self._who, error.what)
                pause = self._interval or _BUSY_SECONDS
            except Refused as error:
                self._inbox.fail(error.text)
                return
            except StreamJobError as error:
                self._inbox.fail(f"{self._who}: {error.what}: {error.fix}")
                return
            except Exception as error:
                _LOG.exception("%s: the search for files ended", self._who)
                self._inbox.fail(f"{self._who}: {error!r}")
                return

    def _offered(self) -> None:
        self._last_found = self._clock()

    def _wait_for_room(self) -> None:
        while self._inbox.size() > _MOST_WAITING and not self._stopped.wait(_LOOK_SECONDS):
            pass

    def _compact(self) -> None:
        committed = self._inbox.committed()
        if committed > self._compacted:
            compact(self._folder, committed, self._forget_before_ms())
            self._compacted = committed

    def _pause(self) -> float:
        if self._interval is not None:
            return self._interval
        quiet = self._clock() - self._last_found
        return _BUSY_SECONDS if quiet < _COOLING_SECONDS else _IDLE_SECONDS
