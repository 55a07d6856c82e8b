"""Streams of a job's changes to its pages: server-sent events, from one snapshot a second for all of them.

Nothing is computed while nobody listens. A reader that is too slow for a version gets the next one whole, so nothing
queues up for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence

from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from streamjob.client.page_models import EventView
from streamjob.page.merging import Document, Feed, server_sent
from streamjob_runtime.control.api.guard import keep_open
from streamjob_runtime.control.api.refusals import TooManyRequests
from streamjob_runtime.control.event_log import EventLog

MOST = 8
_EVERY = 1.0
_HEARTBEAT = 15.0
_log = logging.getLogger("streamjob.api")


class Streams:
    """All streams of one server; used on its event loop, apart from `close`.

    Args:
        live: returns the job's current document for its page, without null, at once.
        events: the events of the job.
        clock: seconds since 1970, for the end of sessions.
        every: seconds from one snapshot to the next.
        heartbeat: seconds after which a silent stream shows that it is alive.
    """

    def __init__(
        self,
        live: Callable[[], Document],
        events: EventLog,
        clock: Callable[[], float],
        *,
        every: float = _EVERY,
        heartbeat: float = _HEARTBEAT,
    ) -> None:
        self._live = live
        self._events = events
        self._clock = clock
        self._every = every
        self._heartbeat = heartbeat
        self._feed = Feed()
        self._newest_event = 0
        self._changed = asyncio.Event()
        self._open: set[Stream] = set()
        self._ticking: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def open(self, last_event: int | None, expires: float | None) -> Stream:
        """Return a new stream; close it in the end.

        Args:
            last_event: the id of the last event that the reader knows; None to send only new ones.
            expires: when the reader's session ends, in seconds since 1970; None for never.

        Raises:
            TooManyRequests: there are as many as are allowed.
        """
        if len(self._open) >= MOST:
            raise TooManyRequests(f"{MOST} streams are open already", "Close a page of this job.")
        newest = self._events.last_id
        # Ids begin again with each process: a higher one is of another.
        known = newest if last_event is None else last_event if last_event <= newest else 0
        stream = Stream(self, known, expires)
        self._open.add(stream)
        self._loop = asyncio.get_running_loop()
        if self._ticking is None:
            self._feed.forget()
            self._ticking = asyncio.create_task(self._tick())
        return stream

    def close(self) -> None:
        """End all streams, with the last state of the job; any thread may call it."""
        if self._loop is None or self._loop.is_closed():
            self._closed = True
            return
        asyncio.run_coroutine_threadsafe(self._end(), self._loop)

    async def _end(self) -> None:
        if self._open:
            try:
                self._feed.advance(await run_in_threadpool(self._live))
            except Exception:
                _log.exception("the last state of the job could not be shown")
        self._closed = True
        self._notify()

    async def _tick(self) -> None:
        try:
            while self._open and not self._closed:
                document = await run_in_threadpool(self._live)
                newest = self._events.last_id
                if self._feed.advance(document) or newest != self._newest_event:
                    self._newest_event = newest
                    self._notify()
                await asyncio.sleep(self._every)
        except Exception:
            # The readers come back, and find out whether it works again.
            _log.exception("the streams to the job's pages end: the job could not be shown")
            for stream in self._open:
                stream.over = True
            self._notify()
        finally:
            self._ticking = None

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def is_over(self, stream: Stream) -> bool:
        """Return whether a stream has to end."""
        expired = stream.expires is not None and self._clock() >= stream.expires
        return self._closed or stream.over or expired

    async def wait(self) -> bool:
        """Wait for a change; return whether there was one before the next heartbeat."""
        try:
            await asyncio.wait_for(self._changed.wait(), self._heartbeat)
        except TimeoutError:
            return False
        return True

    def news(self, version: int) -> tuple[int, bytes]:
        """Return the current version of the document, and what brings a reader of a version there."""
        if not self._feed.has_document:
            return version, b""
        return self._feed.version, self._feed.news(version)

    def events_after(self, event: int) -> Sequence[EventView]:
        """Return the events with higher ids, oldest first."""
        return self._events.after(event) if self._events.last_id > event else ()

    def leave(self, stream: Stream) -> None:
        """Forget a stream that is closed."""
        self._open.discard(stream)


class Stream:
    """One stream, from `Streams.open` to `close`.

    Args:
        known: the id of the last event that the reader knows.
        expires: when the reader's session ends, in seconds since 1970; None for never.
    """

    def __init__(self, streams: Streams, known: int, expires: float | None) -> None:
        self.expires = expires
        self.over = False
        self._streams = streams
        self._known = known
        self._version = 0

    async def texts(self) -> AsyncIterator[bytes]:
        """Yield the texts of the stream until it is over."""
        while True:
            # Before the news, which then contain the last state.
            over = self._streams.is_over(self)
            self._version, text = self._streams.news(self._version)
            for event in self._streams.events_after(self._known):
                self._known = event.id
                text += server_sent("log", event.model_dump(mode="json"), event.id)
            if text:
                yield text
            if over:
                yield server_sent("bye", {})
                return
            if not self._streams.is_over(self) and not await self._streams.wait():
                yield b": heartbeat\n\n"

    def close(self) -> None:
        """Make room for another stream."""
        self._streams.leave(self)


class StreamResponse(StreamingResponse):
    """Sends a stream; its connection stays open for as long as the reader takes what is sent.

    Args:
        stream: the stream, which is closed in the end.
    """

    def __init__(self, stream: Stream) -> None:
        # A proxy must not wait for the end of the answer.
        super().__init__(stream.texts(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        texts = self.body_iterator

        async def kept_open() -> AsyncIterator[bytes]:
            async for text in texts:
                keep_open(scope)
                yield bytes(text) if not isinstance(text, str) else text.encode()

        self.body_iterator = kept_open()
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._stream.close()
