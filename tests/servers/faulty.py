"""A proxy in front of an S3 server that misbehaves as a test tells it to, and counts what passes.

    with FaultyProxy(server.port) as proxy:
        proxy.on("PutObject", answer(503), times=2)
        proxy.on("PutObject", cut_after_applying, key="log/")
        ...
        assert proxy.requests["PutObject"] == 3

Requests pass through byte for byte, with the Host that the client signed. A rule acts on the first requests that match
it and is then used up; rules are looked at in the order in which they were given.
"""

from __future__ import annotations

import contextlib
import http.client
import http.server
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from urllib.parse import parse_qs, unquote, urlsplit

_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "expect", "proxy-connection", "content-length"}


@dataclass
class Request:
    """A request on its way; a rule may change it."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes
    operation: str = ""

    def header(self, name: str) -> str | None:
        """Return a header's value."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    def without(self, name: str) -> Request:
        """Return the request without a header."""
        kept = [(key, value) for key, value in self.headers if key.lower() != name.lower()]
        return Request(self.method, self.target, kept, self.body, self.operation)


@dataclass
class Response:
    """An answer: the server's, or one made up here."""

    status: int
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""


class Cut(Exception):
    """Reset the client's connection, after sending `part` of an answer."""

    def __init__(self, part: Response | None = None, length: int = 0) -> None:
        super().__init__("cut")
        self.part = part
        self.length = length


Forward = Callable[[Request], Response]
Fault = Callable[[Request, Forward], Response]


def answer(status: int, code: str = "SlowDown", message: str = "made up by a test") -> Fault:
    """Return a fault that answers with an S3 error and does not ask the server."""
    body = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>{message}</Message></Error>'.encode()

    def fault(request: Request, forward: Forward) -> Response:
        return Response(status, [("Content-Type", "application/xml")], b"" if request.method == "HEAD" else body)

    return fault


def cut_before_applying(request: Request, forward: Forward) -> Response:
    """Reset the connection; the server never sees the request."""
    raise Cut


def cut_after_applying(request: Request, forward: Forward) -> Response:
    """Let the server do it, then reset the connection instead of answering."""
    forward(request)
    raise Cut


def answer_after_applying(status: int, code: str = "InternalError") -> Fault:
    """Return a fault that lets the server do it and then answers with an S3 error."""
    made_up = answer(status, code)

    def fault(request: Request, forward: Forward) -> Response:
        forward(request)
        return made_up(request, forward)

    return fault


def cut_halfway(request: Request, forward: Forward) -> Response:
    """Send the head of the answer and half of its body, then reset the connection."""
    response = forward(request)
    raise Cut(response, len(response.body) // 2)


class Noted:
    """A fault that says when it was met."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault
        self.met = threading.Event()

    def __call__(self, request: Request, forward: Forward) -> Response:
        self.met.set()
        return self._fault(request, forward)


class Hold:
    """A fault that lets the server do it, and keeps the answer back until `release` is called."""

    def __init__(self) -> None:
        self._released = threading.Event()
        self.reached = threading.Event()

    def __call__(self, request: Request, forward: Forward) -> Response:
        response = forward(request)
        self.reached.set()
        self._released.wait(60)
        return response

    def release(self) -> None:
        """Let the answers go."""
        self._released.set()


@dataclass
class _Rule:
    operation: str
    fault: Fault
    key: str
    left: float


class FaultyProxy:
    """An HTTP proxy on a loopback port of its own.

    Args:
        upstream: port of the S3 server on the loopback interface.
    """

    def __init__(self, upstream: int) -> None:
        self._upstream = upstream
        self._rules: list[_Rule] = []
        self._lock = threading.Lock()
        self._away = False
        self.requests: Counter[str] = Counter()
        self.bytes_sent: Counter[str] = Counter()
        self.bytes_received: Counter[str] = Counter()
        proxy = self

        class Handler(_Handler):
            owner = proxy

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="faulty", daemon=True)

    @property
    def port(self) -> int:
        """Its port."""
        return int(self._server.server_address[1])

    @property
    def endpoint(self) -> str:
        """Its URL."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> FaultyProxy:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def on(self, operation: str, fault: Fault, times: float = 1, key: str = "") -> None:
        """Let the next requests meet a fault.

        Args:
            operation: S3's name of it (`PutObject`), an HTTP method (`PUT`), or `*`.
            fault: what happens to them.
            times: how many of them; `float("inf")` for all.
            key: only those whose path contains it.
        """
        with self._lock:
            self._rules.append(_Rule(operation, fault, key, times))

    def clear(self) -> None:
        """Forget all rules and counts."""
        with self._lock:
            self._rules.clear()
            for counts in (self.requests, self.bytes_sent, self.bytes_received):
                counts.clear()

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        """Be away while the block runs: every connection is reset at once."""
        self._away = True
        try:
            yield
        finally:
            self._away = False

    def pass_on(self, request: Request) -> Response:
        """Do with a request what the rules say. Raises Cut."""
        if self._away:
            raise Cut
        with self._lock:
            self.requests[request.operation] += 1
            self.bytes_sent[request.operation] += len(request.body)
            rule = next((rule for rule in self._rules if rule.left > 0 and _matches(rule, request)), None)
            if rule is not None:
                rule.left -= 1
        response = self.forward(request) if rule is None else rule.fault(request, self.forward)
        with self._lock:
            self.bytes_received[request.operation] += len(response.body)
        return response

    def forward(self, request: Request) -> Response:
        """Send a request to the server and return its answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self._upstream, timeout=60)
        try:
            connection.putrequest(request.method, request.target, skip_host=True, skip_accept_encoding=True)
            for name, value in request.headers:
                if name.lower() not in _HOP_BY_HOP:
                    connection.putheader(name, value)
            connection.putheader("Content-Length", str(len(request.body)))
            connection.putheader("Connection", "close")
            connection.endheaders(request.body)
            answered = connection.getresponse()
            body = answered.read()
            headers = answered.getheaders()
        finally:
            connection.close()
        return Response(answered.status, headers, body)


def _matches(rule: _Rule, request: Request) -> bool:
    return rule.operation in ("*", request.operation, request.method) and rule.key in unquote(request.target)


def operation_of(method: str, target: str, copies: bool) -> str:
    """Return S3's name of a request."""
    parts = urlsplit(target)
    query = parse_qs(parts.query, keep_blank_values=True)
    in_bucket = "/" in parts.path.strip("/")
    if method == "POST":
        if "delete" in query:
            return "DeleteObjects"
        return "CreateMultipartUpload" if "uploads" in query else "CompleteMultipartUpload"
    if method == "PUT":
        if "partNumber" in query:
            return "UploadPartCopy" if copies else "UploadPart"
        return ("CopyObject" if copies else "PutObject") if in_bucket else "CreateBucket"
    if method == "GET":
        if "uploadId" in query:
            return "ListParts"
        if "uploads" in query:
            return "ListMultipartUploads"
        return "GetObject" if in_bucket else "ListObjectsV2"
    if method == "DELETE":
        return "AbortMultipartUpload" if "uploadId" in query else "DeleteObject"
    return "HeadObject" if in_bucket else "HeadBucket"


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a client that gives up is part of every test here."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    owner: FaultyProxy

    def log_message(self, *args: object) -> None:
        """Say nothing."""

    def _handle(self) -> None:
        body = self._body()
        headers = list(self.headers.items())
        copies = self.headers.get("x-amz-copy-source") is not None
        request = Request(self.command, self.path, headers, body, operation_of(self.command, self.path, copies))
        try:
            response = self.owner.pass_on(request)
        except Cut as cut:
            if cut.part is not None:
                self._send(cut.part, cut.length)
            self._reset()
        else:
            self._send(response, len(response.body))

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _handle  # noqa: N815  the base class calls them so

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            body = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _send(self, response: Response, length: int) -> None:
        self.send_response_only(response.status)
        declared = str(len(response.body))
        for name, value in response.headers:
            if name.lower() == "content-length" and self.command == "HEAD":
                declared = value
            if name.lower() not in _HOP_BY_HOP:
                self.send_header(name, value)
        if response.status not in (204, 304):
            self.send_header("Content-Length", declared)
        self.end_headers()
        self.wfile.write(response.body[:length])
        self.wfile.flush()

    def _reset(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            # Lingering for no time turns the close into a reset.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
