"""The requests of agents to the driver over HTTP, each request and answer signed with the attempt's key."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Scope, Send

from streamjob_runtime.executors.credentials import Counts, Credentials
from streamjob_runtime.executors.driver.fleet import Fleet, NotReady, RefusedByDriver, UnknownExecutor
from streamjob_runtime.executors.messages import (
    CONNECTIONS,
    COUNT_HEADER,
    INSTANCE_HEADER,
    NAME_HEADER,
    PREFIX,
    SIGNATURE_HEADER,
    Attempt,
    Done,
    Drain,
    Leave,
    Nothing,
    Poll,
    Refusal,
    Registration,
)

log = logging.getLogger("streamjob")

LARGEST_BODY = 64 * 1024 * 1024
_STRANGERS_BODY = 65_536

Handler = Callable[[str, str, bytes], Awaitable[BaseModel]]
"""Answers a request, given the executor's name, its agent's process, and the body."""


class AgentRoutes:
    """The routes below `/v1/agents/`; all other requests go to another application.

    Args:
        more: handlers of further requests, by the last part of the path; they may block.
    """

    def __init__(
        self,
        fleet: Fleet,
        credentials: Credentials,
        more: Mapping[str, Callable[[str, str, bytes], BaseModel]] | None = None,
    ) -> None:
        self._fleet = fleet
        self._credentials = credentials
        self._lock = threading.Lock()
        self._counts: dict[str, Counts] = {}
        self._handlers: dict[str, Handler] = {
            "register": _blocking(self._register),
            "poll": self._poll,
            "done": _blocking(self._done),
            "drain": _blocking(self._drain),
            "leave": _blocking(self._leave),
            **{path: _blocking(each) for path, each in (more or {}).items()},
        }

    @property
    def connections(self) -> int:
        """The most connections that the agents of all wanted executors have at a time."""
        return self._fleet.wanted * CONNECTIONS

    def beside(self, app: ASGIApp, trust: Callable[[Scope], None] = lambda scope: None) -> ASGIApp:
        """Return an application that serves agents, and leaves everything else to another one.

        Args:
            app: the other one.
            trust: is called with each request that has shown that it knows the secret.
        """

        async def both(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http" and scope["path"].startswith(PREFIX):
                await self._serve(scope, receive, send, trust)
            else:
                await app(scope, receive, send)

        return both

    async def _serve(self, scope: Scope, receive: Receive, send: Send, trust: Callable[[Scope], None]) -> None:
        path = scope["path"].removeprefix(PREFIX)
        if scope["method"] == "GET" and path == "attempt":
            await _answer(send, 200, _json(Attempt(attempt=self._credentials.attempt)))
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        name, instance = headers.get(NAME_HEADER, ""), headers.get(INSTANCE_HEADER, "")
        count, signature = headers.get(COUNT_HEADER, ""), headers.get(SIGNATURE_HEADER, "")
        body = await _body(receive, LARGEST_BODY if signature else _STRANGERS_BODY)
        parts = [scope["method"], scope["path"], name, instance, count]
        if body is None or not self._credentials.proves(signature, *(each.encode() for each in parts), body):
            await self._refuse(send, 401, "the request is not signed with the secret of this attempt", "")
            return
        trust(scope)
        if not self._is_new(instance, count):
            await self._refuse(send, 409, "the request was made before", signature)
            return
        handler = self._handlers.get(path)
        if handler is None or scope["method"] != "POST":
            await self._refuse(send, 404, f"there is no {scope['method']} {scope['path']}", signature)
            return
        try:
            answer = await handler(name, instance, body)
        except NotReady as error:
            await self._refuse(send, 503, error.what, signature)
        except UnknownExecutor as error:
            await self._refuse(send, 410, error.what, signature)
        except RefusedByDriver as error:
            await self._refuse(send, 409, str(error), signature)
        except ValidationError as error:
            await self._refuse(send, 400, str(error), signature)
        except Exception as error:
            log.debug("A request of executor %s failed", name, exc_info=True)
            await self._refuse(send, 500, f"{type(error).__name__}: {error}", signature)
        else:
            await self._signed(send, 200, _json(answer), signature)

    def _is_new(self, instance: str, count: str) -> bool:
        if not (count.isascii() and count.isdigit()):
            return False
        with self._lock:
            return self._counts.setdefault(instance, Counts()).accept(int(count))

    async def _refuse(self, send: Send, status: int, error: str, signature: str) -> None:
        content = _json(Refusal(error=error, attempt=self._credentials.attempt))
        await self._signed(send, status, content, signature)

    async def _signed(self, send: Send, status: int, content: bytes, signature: str) -> None:
        signed = self._credentials.sign(signature.encode(), str(status).encode(), content)
        await _answer(send, status, content, [(SIGNATURE_HEADER.encode(), signed.encode())])

    def _register(self, name: str, instance: str, body: bytes) -> BaseModel:
        return self._fleet.register(name, instance, Registration.model_validate_json(body))

    async def _poll(self, name: str, instance: str, body: bytes) -> BaseModel:
        poll = Poll.model_validate_json(body)
        return await self._fleet.poll(poll.executor, instance, registered=poll.registered)

    def _done(self, name: str, instance: str, body: bytes) -> BaseModel:
        done = Done.model_validate_json(body)
        self._fleet.done(done.executor, instance, done.command, done.error, done.body)
        return Nothing()

    def _drain(self, name: str, instance: str, body: bytes) -> BaseModel:
        self._fleet.drain(Drain.model_validate_json(body).executor, instance)
        return Nothing()

    def _leave(self, name: str, instance: str, body: bytes) -> BaseModel:
        leave = Leave.model_validate_json(body)
        self._fleet.check(leave.executor, instance)
        self._fleet.lose(leave.executor, leave.reason)
        return Nothing()


def _blocking(handle: Callable[[str, str, bytes], BaseModel]) -> Handler:
    async def handler(name: str, instance: str, body: bytes) -> BaseModel:
        return await run_in_threadpool(handle, name, instance, body)

    return handler


async def _body(receive: Receive, limit: int) -> bytes | None:
    """Return the body of a request; None if it is too large or the caller has left."""
    body = bytearray()
    while True:
        message: Any = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if len(body) > limit:
            return None
        if not message.get("more_body", False):
            return bytes(body)


async def _answer(send: Send, status: int, content: bytes, headers: list[tuple[bytes, bytes]] | None = None) -> None:
    length = (b"content-length", str(len(content)).encode())
    head = [(b"content-type", b"application/json"), length, *(headers or [])]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": content})


def _json(message: BaseModel) -> bytes:
    return json.dumps(message.model_dump(mode="json")).encode()
