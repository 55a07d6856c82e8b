"""Shows Spark's page below the job's own address, to those who have a session.

A browser that follows a link sends no header, and cookies belong to all ports of a host. So a session gets a path with
a random token, which is good for reading this page and for nothing else, for an hour at most.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from starlette.responses import PlainTextResponse, Response

from streamjob.page.files import HEADERS, PAGE
from streamjob_runtime.control.api.sessions import Access, hash_of
from streamjob_runtime.spark.page import HEADER, SparkPage

if TYPE_CHECKING:
    import httpx

PREFIX = PAGE + "spark/"
SECONDS = 3600.0
_MOST = 100
_LARGEST = 64 * 1024 * 1024
_TIMEOUT_SECONDS = 20.0
_BASE = re.compile(r"(/[A-Za-z0-9._~!$&'()*+,;=:@%-]+)*")

SPARK_HEADERS: Mapping[str, str] = {
    **HEADERS,
    # Spark's page has scripts and styles in its markup. It still loads nothing from elsewhere, and sends nothing away.
    "Content-Security-Policy": "default-src 'none'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
}


@dataclass(frozen=True, slots=True)
class Ticket:
    """The right to read Spark's page.

    Args:
        token: in the path.
        base: the path of a proxy before the driver's own paths; empty for none.
        expires: in seconds since 1970.
    """

    token: str
    base: str
    expires: float

    @property
    def path(self) -> str:
        """The path of the page for the browser, without a slash at its end."""
        return f"{self.base}{PREFIX}{self.token}"


class SparkPages:
    """Issues tickets, and fetches parts of Spark's page for those who have one.

    Args:
        page: returns where Spark's page is; None if the job has none now.
        clock: seconds since 1970 that never run backwards.
        secret: returns a new random text.
        transport: the HTTP transport; by default the network.
    """

    def __init__(
        self,
        page: Callable[[], SparkPage | None],
        clock: Callable[[], float],
        secret: Callable[[], str],
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.page = page
        self._clock = clock
        self._secret = secret
        self._transport = transport
        self._lock = threading.Lock()
        self._tickets: OrderedDict[bytes, Ticket] = OrderedDict()

    def issue(self, access: Access, base: str) -> Ticket:
        """Return a new ticket, which ends with its session.

        Raises:
            ValueError: the base is no path.
        """
        if _BASE.fullmatch(base) is None or ".." in base:
            raise ValueError("is not a path without a slash at its end")
        ends = self._clock() + SECONDS
        ticket = Ticket(self._secret(), base, ends if access.expires is None else min(ends, access.expires))
        with self._lock:
            self._tickets[hash_of(ticket.token)] = ticket
            while len(self._tickets) > _MOST:
                self._tickets.popitem(last=False)
        return ticket

    def find(self, token: str) -> Ticket | None:
        """Return a ticket; None if the token is unknown or too old."""
        with self._lock:
            ticket = self._tickets.get(hash_of(token))
        return None if ticket is None or self._clock() >= ticket.expires else ticket

    async def answer(self, method: str, token: str, path: str, query: str) -> Response:
        """Return a part of Spark's page.

        Args:
            method: GET or HEAD.
            path: below the page, without a slash at its beginning.
            query: the query of the address.
        """
        ticket = self.find(token)
        if ticket is None:
            return _said(403, "This address has expired. Open Spark’s page again from the page of the job.")
        page = self.page()
        if page is None:
            return _said(503, "Spark’s page is not there.")
        # Few jobs show Spark's page, and the import takes a tenth of a second of each start.
        import httpx

        parts = path.split("/")
        if ".." in parts or "kill" in parts:
            return _said(403, "Spark’s page can only be read.")
        url = f"{page.url}/{quote(path, safe='/:@!$&()*+,;=~-._')}" + (f"?{query}" if query else "")
        headers = {HEADER: page.secret, "X-Forwarded-Context": ticket.path, "Accept-Encoding": "identity"}
        try:
            # Another event loop may have served the last request, and a client belongs to one.
            async with (
                httpx.AsyncClient(transport=self._transport, timeout=_TIMEOUT_SECONDS, trust_env=False) as http,
                http.stream(method, url, headers=headers) as found,
            ):
                content = bytearray()
                async for chunk in found.aiter_bytes():
                    content += chunk
                    if len(content) > _LARGEST:
                        return _said(502, "This part of Spark’s page is too large.")
        except (httpx.HTTPError, httpx.InvalidURL):
            return _said(502, "Spark’s page does not answer.")
        passed = dict(SPARK_HEADERS)
        if (kind := found.headers.get("Content-Type")) is not None:
            passed["Content-Type"] = kind
        if (location := found.headers.get("Location")) is not None:
            passed["Location"] = _below(location, ticket)
        return Response(bytes(content), found.status_code, passed)


def _below(location: str, ticket: Ticket) -> str:
    """Return the address of a redirect as the browser reaches it; Spark names its own host, or the page's path."""
    parts = urlsplit(location)
    path = parts.path if parts.path.startswith(f"{ticket.path}/") else f"{ticket.path}/{parts.path.lstrip('/')}"
    return path + (f"?{parts.query}" if parts.query else "")


def _said(status: int, text: str) -> Response:
    return PlainTextResponse(text + "\n", status, dict(HEADERS))
