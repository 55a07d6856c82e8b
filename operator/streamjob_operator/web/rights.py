"""Decides what a request needs, and what a token is good for at most; pure.

A viewer's rights are those on StreamJobs: whoever may `get` one may read its page, whoever may `update` it may change
it there. A token that was made for this page alone grants what its audience says and nothing else, wherever it ends up.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum

from streamjob.page.audiences import WRITE_AUDIENCE


class Verb(Enum):
    """The access to StreamJobs that a viewer wants."""

    LIST = "list"
    GET = "get"
    UPDATE = "update"


class Way(Enum):
    """Who answers a request for a job."""

    DRIVER = "driver"
    STREAM = "stream"
    SESSION = "session"
    RESOURCE = "resource"
    SCALE = "scale"
    SUSPEND = "suspend"


@dataclass(frozen=True, slots=True)
class Viewer:
    """A user of Kubernetes, and what the token at hand is good for.

    Args:
        extra: what else the API server knows about the user.
        may_write: whether the token may be used for changes.
        expires: when the token expires, in seconds since 1970; None if it does not say.
    """

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
    may_write: bool = False
    expires: float | None = None


@dataclass(frozen=True, slots=True)
class Need:
    """Who answers a request, and the right that it needs."""

    way: Way
    verb: Verb


_ID = r"[A-Za-z0-9-]{1,128}"
_ROUTES: tuple[tuple[str, str, Need], ...] = (
    ("GET", r"session", Need(Way.SESSION, Verb.GET)),
    ("GET", r"resource", Need(Way.RESOURCE, Verb.GET)),
    ("POST", r"scale", Need(Way.SCALE, Verb.UPDATE)),
    ("POST", r"suspend", Need(Way.SUSPEND, Verb.UPDATE)),
    ("GET", r"stream", Need(Way.STREAM, Verb.GET)),
    ("GET", r"job|diagnosis|history|executors|events|checkpoints|profiles", Need(Way.DRIVER, Verb.GET)),
    ("GET", rf"checkpoints/{_ID}|triggers/{_ID}|profiles/{_ID}", Need(Way.DRIVER, Verb.GET)),
    ("POST", r"checkpoints|savepoints|profiles", Need(Way.DRIVER, Verb.UPDATE)),
)
"""Method and path below `/jobs/<namespace>/<name>/v1/`. Everything else is refused: sessions and metrics of the driver,
and its stop, which the controller would take for a failure."""


def need_of(method: str, path: str) -> Need | None:
    """Return what a request for a job needs; None if there is no such request."""
    return next((need for each, form, need in _ROUTES if each == method and re.fullmatch(form, path)), None)


def may_write(audiences: Collection[str]) -> bool:
    """Return whether a token of these audiences may be used for changes; without any it is one for the API server."""
    return not audiences or WRITE_AUDIENCE in audiences


def expiry(token: str) -> float | None:
    """Return when a token of the API server expires, in seconds since 1970; None if it does not say.

    Args:
        token: a token that the API server has accepted; its signature is not checked here.
    """
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        found = claims.get("exp") if isinstance(claims, dict) else None
    except (ValueError, RecursionError):
        return None
    return float(found) if isinstance(found, (int, float)) and not isinstance(found, bool) else None


def from_another_site(headers: Mapping[str, str]) -> bool:
    """Return whether a browser says that a page of another site makes the request.

    A proxy before this page may know the viewer by a cookie, which browsers send with such requests, too.
    """
    return headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none")
