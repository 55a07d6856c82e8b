"""Decides which connections may stay, and how fast new ones are accepted.

A connection is a stranger until one of its requests has shown the token. If there are too many strangers, the oldest is
closed: a caller with the token shows it at once, while an attacker who holds connections open does not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

Connection = TypeVar("Connection", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on the resources that callers can use.

    Args:
        connections: open connections; each takes a file descriptor of the job's process.
        strangers_of_a_peer: connections from one address that have not shown the token.
        per_second: new connections per second on average; the others wait in the kernel.
        burst: new connections at once after a quiet period.
        head_seconds: seconds until the head of the first request is complete, and between the end of a response and the
            next head.
        request_seconds: seconds for the rest of a request and for the caller to read the response.
        head_bytes: maximum size of a request's head.
        body_bytes: maximum size of a request's body.
        waiting_triggers: open requests for checkpoints and savepoints.
    """

    connections: int = 128
    strangers_of_a_peer: int = 64
    per_second: float = 200.0
    burst: int = 100
    head_seconds: float = 5.0
    request_seconds: float = 30.0
    head_bytes: int = 16_384
    body_bytes: int = 65_536
    waiting_triggers: int = 100


LIMITS = Limits()


class Admission(Generic[Connection]):
    """Tracks the open connections of one server; used by its thread only.

    Args:
        limits: the limits on connections.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        # In order of arrival.
        self._strangers: dict[Connection, str] = {}
        self._trusted: set[Connection] = set()

    def admit(self, connection: Connection, peer: str) -> Connection | None:
        """Add a new connection; return the one to close for it, possibly the new one itself, or None."""
        self._strangers[connection] = peer
        of_peers = Counter(self._strangers.values())
        if of_peers[peer] > self._limits.strangers_of_a_peer:
            return self._oldest_of(peer)
        if len(self._strangers) + len(self._trusted) > self._limits.connections:
            return self._oldest_of(of_peers.most_common(1)[0][0])
        return None

    def _oldest_of(self, peer: str) -> Connection:
        return next(each for each, owner in self._strangers.items() if owner == peer)

    def trust(self, connection: Connection) -> None:
        """Record that a connection has shown the token."""
        if self._strangers.pop(connection, None) is not None:
            self._trusted.add(connection)

    def is_trusted(self, connection: Connection) -> bool:
        """Return whether a connection has shown the token."""
        return connection in self._trusted

    def leave(self, connection: Connection) -> None:
        """Forget a connection that is closed."""
        self._strangers.pop(connection, None)
        self._trusted.discard(connection)


class Pace:
    """Tells how long to wait before the next connection is accepted: a token bucket.

    Args:
        per_second: average connections per second.
        burst: connections at once after a quiet period.
    """

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = burst
        self._left = float(burst)
        self._at = float("-inf")

    def take(self, now: float, cost: float = 1.0) -> float:
        """Count one connection; return the seconds to wait before the next one.

        Args:
            now: monotonic time in seconds.
            cost: the cost of the connection; 1 for a whole one.
        """
        self._left = min(float(self._burst), self._left + (now - self._at) * self._per_second)
        self._at = now
        self._left -= cost
        return max(0.0, -self._left / self._per_second)
