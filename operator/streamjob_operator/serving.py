"""Bounds open connections: at the limit, the oldest unauthenticated one is closed."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

_HANDSHAKE = 5.0


class BoundedSite(web.BaseSite):
    """A site of few connections: beyond their number, the oldest one goes that was not trusted.

    Args:
        port: its port; 0 for any free one.
        most: connections at the same time.
        context: for TLS; None for plain HTTP.
    """

    def __init__(
        self, runner: web.AppRunner, host: str, port: int, *, most: int, context: ssl.SSLContext | None = None
    ) -> None:
        super().__init__(runner, ssl_context=context)
        self._host, self._port, self._most = host, port, most
        self._trusted: set[RequestHandler] = set()

    @property
    def name(self) -> str:
        """Its address, for messages."""
        return f"{'https' if self._ssl_context else 'http'}://{self._host}:{self._port}"

    async def start(self) -> None:
        """Start to listen."""
        await super().start()
        self._server = await asyncio.get_running_loop().create_server(
            self._accept,
            self._host,
            self._port,
            ssl=self._ssl_context,
            ssl_handshake_timeout=_HANDSHAKE if self._ssl_context else None,
        )

    def trust(self, request: web.BaseRequest) -> None:
        """Keep the connection of a request open in preference to those of strangers."""
        self._trusted.add(request.protocol)
        if self._runner.server is not None and len(self._trusted) > self._most:
            self._trusted.intersection_update(self._runner.server.connections)

    def _accept(self) -> Any:
        server = self._runner.server
        assert server is not None
        connections = server.connections
        if len(connections) >= self._most:
            next((each for each in connections if each not in self._trusted), connections[0]).force_close()
        return server()
