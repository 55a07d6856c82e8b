"""A way to the API server that a scenario can cut."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import yaml

_HOST = "127.0.0.1"


class ApiProxy:
    """Passes connections on to an API server, from entry to exit, unless it is cut.

    Args:
        kubeconfig: how the API server is reached.
    """

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        target = urlsplit(str(yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]))
        self._target = (str(target.hostname), target.port or 443)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._port = 0

    def __enter__(self) -> ApiProxy:
        self._thread.start()
        self._do(self._listen())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def write_kubeconfig(self, path: Path) -> None:
        """Write a kubeconfig that leads through here."""
        config = yaml.safe_load(self._kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        # Its certificate is good for its own address.
        cluster.pop("certificate-authority-data", None)
        cluster.pop("certificate-authority", None)
        cluster |= {"server": f"https://{_HOST}:{self._port}", "insecure-skip-tls-verify": True}
        path.write_text(yaml.safe_dump(config))

    def cut(self) -> None:
        """Break all connections, and let none be made."""
        self._do(self._close())

    def mend(self) -> None:
        """Let connections be made again, at the same port."""
        self._do(self._listen())

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, _HOST, self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            there, back = await asyncio.open_connection(*self._target)
            self._writers.add(back)
            try:
                await asyncio.gather(_pass_on(reader, back), _pass_on(there, writer))
            finally:
                self._writers.discard(back)
                back.transport.abort()
        except OSError:
            return
        finally:
            self._writers.discard(writer)
            writer.transport.abort()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
