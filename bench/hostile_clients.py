"""Hostile clients, as a process of their own: `python -m bench.hostile_clients SECONDS CLIENTS CONTROL METRICS`.

They have no token. Each misbehaves in its own way on one connection until the server closes it or its time is over, and
then reconnects. The process has the lowest priority, so that it takes no processor time from the job, as from another
machine. It prints the number of connections of each kind, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress

Address = tuple[str, int]

HOLD_SECONDS = 30.0
"""A connection that the server leaves alone is given up after this."""
_CONNECT_SECONDS = 10.0
_TRICKLE_SECONDS = 0.5
_HUNDREDTH = 0.01
_HEAD = b"GET /v1/job HTTP/1.1\r\nHost: localhost\r\n"
_POST = b"POST /v1/stop HTTP/1.1\r\nHost: localhost\r\n"
_WRONG = b"Authorization: Bearer " + b"f" * 43 + b"\r\n"
_TLS = bytes.fromhex("16030100a5010000a10303") + b"\x01" * 160
_CHUNK = b" " * 65_536


class Connection:
    """An open connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        """Send, and wait until most of it is on its way."""
        self._writer.write(data)
        await self._writer.drain()

    async def trickle(self, data: bytes) -> None:
        """Send the same again and again, slowly, until the connection ends."""
        while not self._reader.at_eof():
            await self.send(data)
            await asyncio.sleep(_TRICKLE_SECONDS)

    async def until_closed(self) -> None:
        """Read until the server ends the connection."""
        while await self._reader.read(65_536):
            pass


Harm = Callable[[Connection], Awaitable[None]]


async def _say(connection: Connection, data: bytes) -> None:
    await connection.send(data)
    await connection.until_closed()


async def _silent(connection: Connection) -> None:
    await connection.until_closed()


async def _half_a_head(connection: Connection) -> None:
    await _say(connection, _HEAD)


async def _slow_head(connection: Connection) -> None:
    await connection.send(_HEAD)
    await connection.trickle(b"X-A: b\r\n")


async def _slow_body(connection: Connection) -> None:
    await connection.send(_POST + _WRONG + b"Content-Length: 60000\r\n\r\n")
    await connection.trickle(b" ")


async def _large_body(connection: Connection) -> None:
    await connection.send(_POST + _WRONG + b"Content-Length: 10485760\r\n\r\n")
    for _ in range(160):
        await connection.send(_CHUNK)
    await connection.until_closed()


async def _endless_header(connection: Connection) -> None:
    await _say(connection, _HEAD + b"X: " + b"x" * 200_000)


async def _garbage(connection: Connection) -> None:
    await _say(connection, b"\0" * 100_000)


async def _tls(connection: Connection) -> None:
    await _say(connection, _TLS)


async def _wrong_token(connection: Connection) -> None:
    await _say(connection, _HEAD + _WRONG + b"\r\n")


async def _flood(connection: Connection) -> None:
    await _say(connection, (_HEAD + b"\r\n") * 50)


async def _gone_at_once(connection: Connection) -> None:
    await asyncio.sleep(_HUNDREDTH)


async def _scrape(connection: Connection) -> None:
    await _say(connection, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")


async def _unread_scrape(connection: Connection) -> None:
    await connection.send(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await asyncio.sleep(HOLD_SECONDS)


async def _probe(connection: Connection) -> None:
    await _say(connection, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")


KINDS: dict[str, Harm] = {
    "silent": _silent,
    "half a head": _half_a_head,
    "a header now and then": _slow_head,
    "a body byte by byte": _slow_body,
    "a body of 10 MB": _large_body,
    "a header without end": _endless_header,
    "zeros": _garbage,
    "TLS": _tls,
    "a wrong token": _wrong_token,
    "50 requests at once": _flood,
    "gone at once": _gone_at_once,
    "metrics, again and again": _scrape,
    "metrics, not read": _unread_scrape,
    "probes, again and again": _probe,
}


async def attack(clients: int, addresses: list[Address], over: Awaitable[object]) -> Counter[str]:
    """Run the given number of clients until `over` is done; return the connections of each kind."""
    made: Counter[str] = Counter()
    kinds = list(KINDS.items())

    async def one(number: int) -> None:
        # Each kind meets each of the servers.
        name, harm = kinds[number % len(kinds)]
        host, port = addresses[number // len(kinds) % len(addresses)]
        while True:
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    reader, writer = await asyncio.open_connection(host, port)
            except OSError:
                await asyncio.sleep(_HUNDREDTH)
                continue
            made[name] += 1
            try:
                with suppress(OSError):
                    async with asyncio.timeout(HOLD_SECONDS):
                        await harm(Connection(reader, writer))
            finally:
                writer.transport.abort()
            await asyncio.sleep(_HUNDREDTH)

    end = asyncio.ensure_future(over)
    tasks = [asyncio.create_task(one(number)) for number in range(clients)]
    # A client ends by itself only with an error of its own.
    await asyncio.wait([end, *tasks], return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(outcome, Exception):
            raise outcome
    return made


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host, int(port)


def main() -> None:
    """Attack, and print how many connections there were."""
    os.nice(19)
    seconds, clients, *addresses = sys.argv[1:]

    async def for_a_time() -> Counter[str]:
        return await attack(int(clients), [_address(each) for each in addresses], asyncio.sleep(float(seconds)))

    print(json.dumps(asyncio.run(for_a_time())))


if __name__ == "__main__":
    main()
