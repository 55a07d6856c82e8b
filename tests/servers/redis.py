"""A real Redis server on loopback that keeps nothing. With `CI=true` the program `redis-server` is required."""

from __future__ import annotations

import contextlib
import shutil

import redis
from tests.servers.process import ServerMissing, ServerProcess


def find_program() -> str | None:
    """Return the server's program, None if it is missing."""
    return shutil.which("redis-server")


class RedisServer(ServerProcess):
    """A server, started on entry and ended on exit."""

    kind = "Redis"

    @property
    def url(self) -> str:
        """Where a client finds it."""
        return f"redis://{self.host}:{self.port}"

    def make(self) -> None:
        """Make nothing: it keeps nothing."""

    def command(self) -> list[str]:
        """Return the command that starts it at its port."""
        program = find_program()
        if program is None:
            raise ServerMissing("put redis-server on the PATH")
        return [program, "--bind", self.host, "--port", str(self.port), "--save", "", "--dir", str(self.directory)]

    def answers(self) -> bool:
        """Return whether it takes commands."""
        with contextlib.suppress(redis.ConnectionError), redis.Redis.from_url(self.url) as client:
            return bool(client.ping())
        return False
