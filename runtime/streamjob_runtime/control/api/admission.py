"""Decides which connections may stay, and how fast new ones are accepted.

A connection is a stranger until one of its requests has shown the token. If there are too many strangers, the oldest is
closed: a caller with the token shows it at once, while an attacker who holds connections open does not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

Connection = TypeVar("Connection")


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


def surplus(strangers: Mapping[Connection, str], newest: str, connections: int, limits: Limits) -> Connection | None:
    """Return the stranger to close for a new one, possibly the new one itself; None if there is room for all.

    Args:
        strangers: the addresses of all strangers, in order of arrival.
        newest: the address of the new one.
        connections: the number of all connections.
    """
    crowds = Counter(strangers.values())
    if crowds[newest] > limits.strangers_of_a_peer:
        crowd = newest
    elif connections > limits.connections:
        crowd = crowds.most_common(1)[0][0]
    else:
        return None
    return next(each for each, peer in strangers.items() if peer == crowd)


def next_turn(turn: float, now: float, limits: Limits, cost: float = 1.0) -> float:
    """Return when the next connection may be accepted.

    Args:
        turn: when the last one might be accepted.
        now: when it was accepted; monotonic time in seconds.
        cost: its cost; 1 for a whole connection.
    """
    return max(turn, now - limits.burst / limits.per_second) + cost / limits.per_second
