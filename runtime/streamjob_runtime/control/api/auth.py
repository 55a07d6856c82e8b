"""Authentication for the control API: callers must show the token.

The check runs before routing and before a body is read. It denies all paths that are not listed as open, so a new route
is protected by default.
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from starlette.types import ASGIApp, Receive, Scope, Send

from streamjob.client.models import Problem
from streamjob.errors import InvalidInput
from streamjob.page.files import PAGE, host_name
from streamjob_runtime.control.api.guard import trust_connection
from streamjob_runtime.control.api.problems import problem_response
from streamjob_runtime.control.api.sessions import Access, Sessions

TOKEN_FILE_VARIABLE = "STREAMJOB_TOKEN_FILE"
OPEN_PATHS = frozenset({"/healthz", "/readyz"})
SESSIONS_PATH = "/v1/sessions"
SPARK_PAGE_PATH = "/v1/spark-page"
"""Sessions that may only read may call this, too."""
TOKEN_HEADER = b"x-streamjob-token"
"""An alternative to `Authorization`, which the API server of Kubernetes keeps for itself when it is the proxy."""

_ACCESS = "streamjob.access"
_READING = frozenset({"GET", "HEAD"})
_UNAUTHORIZED = Problem(
    title="Unauthorized",
    status=401,
    detail="the request carries no valid token",
    fix="Send the content of the job's token file as `Authorization: Bearer <token>`.",
)
_READ_ONLY = Problem(
    title="Forbidden",
    status=403,
    detail="this session may only read",
    fix="Open the page with `streamjob ui --write`.",
)

_MINIMUM_LENGTH = 16


def token_file(workdir: Path) -> Path:
    """Return the token file: STREAMJOB_TOKEN_FILE, or `<workdir>/token` with a new random token and mode 0600.

    Raises:
        InvalidInput: STREAMJOB_TOKEN_FILE names an unusable file.
    """
    configured = os.environ.get(TOKEN_FILE_VARIABLE)
    if configured:
        path = Path(configured).resolve()
        read_token(path)
        return path
    path = workdir.resolve() / "token"
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(secrets.token_urlsafe(32))
    return path


def read_token(path: Path) -> str:
    """Return the token in a file, without surrounding white space.

    Raises:
        InvalidInput: the file cannot be read, or does not contain a token.
    """
    try:
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not ASCII text"
        raise InvalidInput(
            f"token file {path}: {reason}",
            f"Make {TOKEN_FILE_VARIABLE} name a readable file with the token, or unset it.",
        ) from None
    if len(token) < _MINIMUM_LENGTH or any(character.isspace() for character in token):
        raise InvalidInput(
            f"token file {path}: its content is shorter than {_MINIMUM_LENGTH} characters or has spaces in it",
            "Put one long random word in it, such as the output of `openssl rand -hex 32`.",
        )
    return token


class BearerToken:
    """Middleware that answers 401 to every HTTP request without a valid token, except on open paths.

    It answers 403 to requests of read-only sessions that would change something, and 421 to requests for a host that
    the server does not have.

    Args:
        hosts: the names of the server; None for any.
    """

    def __init__(self, app: ASGIApp, token: str, sessions: Sessions, hosts: frozenset[str] | None) -> None:
        self._app = app
        self._expected = token.encode()
        self._sessions = sessions
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "lifespan" or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        access = self._access(scope) if scope["type"] == "http" else None
        if access is not None:
            trust_connection(scope)
            scope[_ACCESS] = access
        problem = self._refusal(scope, access)
        if problem is None:
            await self._app(scope, receive, send)
            return
        headers = {"WWW-Authenticate": 'Bearer realm="streamjob"'} if problem.status == 401 else None
        await problem_response(problem, headers)(scope, receive, send)

    def _refusal(self, scope: Scope, access: Access | None) -> Problem | None:
        if access is None and not _needs_no_token(scope):
            return _UNAUTHORIZED
        if self._hosts is not None and (host := _host_of(scope)) not in self._hosts:
            return Problem(
                title="Misdirected Request",
                status=421,
                detail=f"this server is not {host!r}",
                fix="Use the address that the job has logged, such as http://127.0.0.1:8080.",
            )
        if scope["path"] == SPARK_PAGE_PATH and scope["method"] == "POST":
            return None
        if access is not None and not access.write and scope["method"] not in _READING:
            return _READ_ONLY
        return None

    def _access(self, scope: Scope) -> Access | None:
        for credentials in _credentials(scope):
            if hmac.compare_digest(credentials, self._expected):
                return Access(write=True)
            if (found := self._sessions.find(credentials.decode("latin-1"))) is not None:
                return found
        return None


def access_of(scope: Scope) -> Access:
    """Return the rights of the caller of an authorized request."""
    access: Access = scope[_ACCESS]
    return access


def _needs_no_token(scope: Scope) -> bool:
    """Return whether a request is for the page's files, which contain no data, or for a session."""
    if scope["type"] != "http":
        return False
    path: str = scope["path"]
    if scope["method"] in _READING:
        return path == PAGE.rstrip("/") or path.startswith(PAGE)
    return path == SESSIONS_PATH and scope["method"] == "POST"


def _host_of(scope: Scope) -> str:
    """Return the host that a request names; empty if it names none."""
    return next((host_name(value.decode("latin-1")) for name, value in scope["headers"] if name == b"host"), "")


def _credentials(scope: Scope) -> Iterator[bytes]:
    for name, value in scope["headers"]:
        if name == b"authorization":
            scheme, _, credentials = value.partition(b" ")
            if scheme.lower() == b"bearer":
                yield credentials.strip()
        elif name == TOKEN_HEADER:
            yield value.strip()
