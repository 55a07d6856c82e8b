"""A real schema registry on loopback: Apicurio Registry, which has Confluent's interface, with its data in memory.

    with SchemaRegistryServer() as registry:
        number = registry.register("orders-value", schema)

Maven Central has Apicurio's, but not Confluent's own; this is the last version that runs on Java 17. Its 142 MB are
downloaded once and kept next to the connectors. With `CI=true` it is required.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import os
import shutil
import signal
import tarfile
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
from tests.servers.process import ServerProcess, required

from streamjob_runtime.spark.connectors.finding import cache_directory
from streamjob_runtime.spark.process.java import find_java

_VERSION = "2.6.13.Final"
_ARCHIVE = f"apicurio-registry-app-{_VERSION}-all.tar.gz"
_URL = f"https://repo1.maven.org/maven2/io/apicurio/apicurio-registry-app/{_VERSION}/{_ARCHIVE}"
_SHA256 = "3cda1b34aa020fb4ac4dd6a66018d757e81e437f97e20a1f92d366b70091c6ba"
_SECONDS = 300.0


@functools.cache
def find_registry() -> Path | None:
    """Return the registry's jar, fetched on the first call; None where it cannot be had."""
    directory = cache_directory(os.environ) / f"apicurio-registry-{_VERSION}"
    jar = directory / f"apicurio-registry-app-{_VERSION}-runner.jar"
    if jar.exists():
        return jar
    try:
        _unpack(directory)
    except httpx.HTTPError:
        if required():
            raise
        return None
    return jar


class SchemaRegistryServer(ServerProcess):
    """A registry, started on entry and ended on exit."""

    kind = "registry"
    # Nothing of it is needed later.
    last = signal.SIGKILL

    @property
    def url(self) -> str:
        """Where it has Confluent's interface."""
        return f"http://{self.host}:{self.port}/apis/ccompat/v7"

    def make(self) -> None:
        """Write nothing: its data are in memory."""

    def command(self) -> list[str]:
        """Return the command that starts it."""
        java = str(find_java(os.environ, self.directory / "java").executable)
        heap = ("-Xmx400m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
        places = (f"-Dquarkus.http.host={self.host}", f"-Dquarkus.http.port={self.port}")
        return [java, *heap, *places, "-jar", str(find_registry())]

    def answers(self) -> bool:
        """Return whether it answers."""
        try:
            return httpx.get(f"{self.url}/subjects", timeout=2).status_code == httpx.codes.OK
        except httpx.HTTPError:
            return False

    def register(self, subject: str, schema: str, **fields: Any) -> int:
        """Add a schema to a subject; return its id."""
        answer = httpx.post(f"{self.url}/subjects/{subject}/versions", json={"schema": schema, **fields})
        assert answer.is_success, answer.text
        return int(answer.json()["id"])

    def set_compatibility(self, subject: str, level: str) -> None:
        """Set which schemas a subject takes."""
        answer = httpx.put(f"{self.url}/config/{subject}", json={"compatibility": level})
        assert answer.is_success, answer.text

    def versions(self, subject: str) -> list[int]:
        """Return the versions of a subject; none if there is no subject."""
        answer = httpx.get(f"{self.url}/subjects/{subject}/versions")
        return list(answer.json()) if answer.is_success else []


@contextmanager
def guarded(registry: SchemaRegistryServer, user: str, password: str) -> Iterator[str]:
    """Serve a registry behind a proxy that wants a password, as a company's does; return its URL."""
    wanted = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()

    class Guard(BaseHTTPRequestHandler):
        def pass_on(self) -> None:
            if self.headers.get("Authorization") != wanted:
                self.answer(401, b'{"error_code": 401, "message": "not you"}')
                return
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            kind = {"Content-Type": self.headers.get("Content-Type") or "application/json"}
            found = httpx.request(self.command, registry.url + self.path, content=content, headers=kind)
            self.answer(found.status_code, found.content)

        def do_GET(self) -> None:
            self.pass_on()

        def do_POST(self) -> None:
            self.pass_on()

        def answer(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    with ThreadingHTTPServer((registry.host, 0), Guard) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{registry.host}:{server.server_address[1]}"
        server.shutdown()


def _unpack(directory: Path) -> None:
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=directory.parent) as scratch:
        archive = Path(scratch) / _ARCHIVE
        digest = hashlib.sha256()
        with archive.open("wb") as file, httpx.stream("GET", _URL, timeout=_SECONDS, follow_redirects=True) as answer:
            answer.raise_for_status()
            for chunk in answer.iter_bytes():
                file.write(chunk)
                digest.update(chunk)
        assert digest.hexdigest() == _SHA256, f"{_URL} has another hash"
        unpacked = Path(scratch) / "unpacked"
        with tarfile.open(archive) as packed:
            packed.extractall(unpacked, filter="data")
        # Another process may have been faster.
        if not directory.exists():
            shutil.move(unpacked, directory)
