"""Sessions of the job's page: one-time codes, and the tokens that they are exchanged for.

A code travels in the fragment of a URL, which browsers do not send; a token stays in the page's memory. Only hashes of
both are kept, so a lookup takes no longer for a token that resembles another.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

CODE_SECONDS = 60.0
SESSION_SECONDS = 8 * 3600.0
_CODES = 100
_SESSIONS = 1000


@dataclass(frozen=True, slots=True)
class Access:
    """The rights of a caller: whether it may write, and until when, in seconds since 1970; None for no end."""

    write: bool
    expires: float | None = None


@dataclass(frozen=True, slots=True)
class Issued:
    """A secret that was just issued, and what it grants."""

    secret: str
    access: Access


class Sessions:
    """Issues codes and sessions; any thread may call it.

    Args:
        clock: seconds since 1970 that never run backwards.
        secret: returns a new random text.
    """

    def __init__(self, clock: Callable[[], float], secret: Callable[[], str]) -> None:
        self._clock = clock
        self._secret = secret
        self._lock = threading.Lock()
        self._codes: OrderedDict[bytes, Access] = OrderedDict()
        self._sessions: OrderedDict[bytes, Access] = OrderedDict()

    def new_code(self, *, write: bool) -> Issued:
        """Return a code, for one use within a minute.

        Args:
            write: whether its session may change the job.
        """
        return self._issue(self._codes, Access(write, self._clock() + CODE_SECONDS), _CODES)

    def exchange(self, code: str) -> Issued | None:
        """Return a new session for a code; None if the code is unknown, used or too old."""
        with self._lock:
            access = self._codes.pop(hash_of(code), None)
        if access is None or self._is_over(access):
            return None
        return self._issue(self._sessions, Access(access.write, self._clock() + SESSION_SECONDS), _SESSIONS)

    def find(self, token: str) -> Access | None:
        """Return the rights of a session; None if the token is unknown or too old."""
        with self._lock:
            access = self._sessions.get(hash_of(token))
        return None if access is None or self._is_over(access) else access

    def _issue(self, place: OrderedDict[bytes, Access], access: Access, most: int) -> Issued:
        secret = self._secret()
        with self._lock:
            for key in [key for key, each in place.items() if self._is_over(each)]:
                del place[key]
            place[hash_of(secret)] = access
            while len(place) > most:
                place.popitem(last=False)
        return Issued(secret, access)

    def _is_over(self, access: Access) -> bool:
        return access.expires is not None and self._clock() >= access.expires


def hash_of(secret: str) -> bytes:
    """Return what is kept of a secret."""
    return sha256(secret.encode("utf-8", "surrogateescape")).digest()
