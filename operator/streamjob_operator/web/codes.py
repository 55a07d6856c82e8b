"""One-time codes: a token reaches the page without being in an address, in an argument of a process, or in a log."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256

CODE_SECONDS = 60.0
_MOST = 100


@dataclass(frozen=True, slots=True)
class _Held:
    token: str = field(repr=False)
    expires: float


class Codes:
    """Holds tokens for a minute, each for one page.

    Args:
        clock: seconds since 1970.
        secret: returns a new random text.
    """

    def __init__(self, clock: Callable[[], float], secret: Callable[[], str]) -> None:
        self._clock = clock
        self._secret = secret
        self._held: OrderedDict[bytes, _Held] = OrderedDict()

    def put(self, token: str) -> tuple[str, float]:
        """Return a code for a token, and when the code expires, in seconds since 1970."""
        now = self._clock()
        for key in [key for key, each in self._held.items() if now >= each.expires]:
            del self._held[key]
        code, expires = self._secret(), now + CODE_SECONDS
        self._held[_hash(code)] = _Held(token, expires)
        while len(self._held) > _MOST:
            self._held.popitem(last=False)
        return code, expires

    def take(self, code: str) -> str | None:
        """Return the token of a code; None if the code is unknown, used or too old."""
        held = self._held.pop(_hash(code), None)
        return None if held is None or self._clock() >= held.expires else held.token


def _hash(code: str) -> bytes:
    return sha256(code.encode("utf-8", "surrogatepass")).digest()
