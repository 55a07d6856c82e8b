"""Passes requests on to drivers. The driver's token stays here, and a driver cannot make a browser run anything."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

import aiohttp
from aiohttp import web

from streamjob.page.files import HEADERS
from streamjob_operator.cluster.driver_api import DriverAddress

MOST_STREAMS: Final = 200
SAFE: Final = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
"""In every answer, in addition to the headers of the page's files."""
_ANSWER_SECONDS = 12.0
_SILENCE_SECONDS = 45.0
_CHECK_SECONDS = 30.0
_LARGEST_ANSWER = 16 * 2**20
_PIECE = 65_536
_PASSED = ("Accept", "Content-Type", "Last-Event-ID")
_TYPES = ("application/json", "application/problem+json")
_STREAM = "text/event-stream"


class DriverAway(Exception):
    """A driver gave no answer, or none that can be passed on."""


class TokenRefused(Exception):
    """A driver does not accept the token that the controller has for it."""


class Proxy:
    """Asks drivers for browsers.

    Args:
        clock: seconds of a clock that never goes back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None
        self.streams = 0

    async def answer(self, request: web.Request, driver: DriverAddress, path: str, body: bytes | None) -> web.Response:
        """Return a driver's answer. Raises DriverAway, TokenRefused.

        Args:
            request: the browser's request.
            path: path and query at the driver.
            body: the body to send; None for none.
        """
        try:
            async with (
                asyncio.timeout(_ANSWER_SECONDS),
                self._open(request, driver, path, body) as answer,
            ):
                _check(answer, _TYPES)
                content = await answer.content.read(_LARGEST_ANSWER + 1)
                while len(content) <= _LARGEST_ANSWER and (more := await answer.content.read(_PIECE)):
                    content += more
                if len(content) > _LARGEST_ANSWER:
                    raise DriverAway("the driver's answer is too large")
                return web.Response(body=content, status=answer.status, content_type=answer.content_type)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise DriverAway(str(error) or type(error).__name__) from None

    async def stream(
        self, request: web.Request, driver: DriverAddress, path: str, still_may: Callable[[], Awaitable[bool]]
    ) -> web.StreamResponse:
        """Pass a driver's stream on until it ends, or until the viewer may no longer read it.

        Raises:
            DriverAway: there is no stream.
            TokenRefused: the driver does not accept the token.
        """
        self.streams += 1
        try:
            async with self._open(request, driver, path, None, streaming=True) as answer:
                if answer.status != 200:
                    _check(answer, _TYPES)
                    return web.Response(
                        body=await answer.content.read(_PIECE), status=answer.status, content_type=answer.content_type
                    )
                _check(answer, (_STREAM,))
                response = event_stream()
                await response.prepare(request)
                await self._pass_on(answer, response, still_may)
                return response
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise DriverAway(str(error) or type(error).__name__) from None
        finally:
            self.streams -= 1

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def _pass_on(
        self, answer: aiohttp.ClientResponse, response: web.StreamResponse, still_may: Callable[[], Awaitable[bool]]
    ) -> None:
        checked = self._clock()
        try:
            async for piece in answer.content.iter_any():
                if self._clock() - checked >= _CHECK_SECONDS:
                    if not await still_may():
                        return
                    checked = self._clock()
                async with asyncio.timeout(_SILENCE_SECONDS):
                    await response.write(piece)
        except (aiohttp.ClientError, OSError, TimeoutError):
            # The head is sent: the browser sees the end, and asks again.
            return

    def _open(
        self, request: web.Request, driver: DriverAddress, path: str, body: bytes | None, *, streaming: bool = False
    ) -> aiohttp.client._RequestContextManager:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=5.0),
                cookie_jar=aiohttp.DummyCookieJar(),
                # The token must not be shown to proxies, nor to whomever a driver points to.
                trust_env=False,
            )
        headers = {name: request.headers[name] for name in _PASSED if name in request.headers}
        headers["Authorization"] = f"Bearer {driver.token}"
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5.0, sock_read=_SILENCE_SECONDS if streaming else None)
        return self._session.request(
            request.method, driver.url + path, headers=headers, data=body, allow_redirects=False, timeout=timeout
        )


def event_stream() -> web.StreamResponse:
    """Return a response for server-sent events, which no proxy should hold back."""
    return web.StreamResponse(headers={"Content-Type": _STREAM, "X-Accel-Buffering": "no", **SAFE, **HEADERS})


def _check(answer: aiohttp.ClientResponse, types: tuple[str, ...]) -> None:
    if answer.status in (401, 403):
        raise TokenRefused
    if 300 <= answer.status < 400 or answer.content_type not in types:
        raise DriverAway(f"the driver answered with {answer.status} and the type {answer.content_type}")
