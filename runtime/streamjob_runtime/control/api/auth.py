"""Authentication for the control API: callers must show the token.

The check runs before routing and before a body is read. It denies all paths that are not listed as open, so a new route
is protected by default.
"""

from __future__ import annotations

import hmac
import os
import secrets
from pathlib import Path

from starlette.types import ASGIApp, Receive, Scope, Send

from streamjob.client.models import Problem
from streamjob.errors import InvalidInput
from streamjob_runtime.control.api.guard import trust_connection
from streamjob_runtime.control.api.problems import problem_response

TOKEN_FILE_VARIABLE = "STREAMJOB_TOKEN_FILE"
OPEN_PATHS = frozenset({"/healthz", "/readyz"})

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
    """Middleware that answers 401 to every HTTP request without the token, except on open paths.

    Args:
        app: the application for all other requests.
        token: the token.
    """

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        authorized = scope["type"] == "http" and self._authorized(scope)
        if authorized:
            trust_connection(scope)
        if authorized or scope["type"] == "lifespan" or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        problem = Problem(
            title="Unauthorized",
            status=401,
            detail="the request carries no valid token",
            fix="Send the content of the job's token file as `Authorization: Bearer <token>`.",
        )
        await problem_response(problem, {"WWW-Authenticate": 'Bearer realm="streamjob"'})(scope, receive, send)

    def _authorized(self, scope: Scope) -> bool:
        for name, value in scope["headers"]:
            if name == b"authorization":
                scheme, _, credentials = value.partition(b" ")
                return scheme.lower() == b"bearer" and hmac.compare_digest(credentials.strip(), self._expected)
        return False
