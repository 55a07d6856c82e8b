"""The files of the pages, and the headers that keep browsers from being used against the jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PAGE = "/ui/"
FILES = Path(__file__).parent / "ui"

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/vnd.microsoft.icon",
    ".txt": "text/plain; charset=utf-8",
}
"""Media types by suffix; other files are not served."""

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}
"""In each answer with a part of the page; the server adds `nosniff` and `no-store` to every answer."""

LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file of the page: its content and its media type."""

    content: bytes
    media_type: str


@cache
def page_files(directory: Path = FILES) -> Mapping[str, PageFile]:
    """Return the files of the page by name; none if it was not built."""
    if not directory.is_dir():
        return {}
    return {
        each.name: PageFile(each.read_bytes(), _TYPES[each.suffix])
        for each in sorted(directory.iterdir())
        if each.suffix in _TYPES and each.is_file()
    }


def names_of(host: str) -> frozenset[str] | None:
    """Return the names under which browsers may reach a server; None for any name.

    A server on loopback has few names. Any other name belongs to a page of a stranger, who lets it lead to this machine
    (DNS rebinding).

    Args:
        host: the address that the server listens on.
    """
    name = f"[{host}]" if ":" in host else host
    return LOOPBACK_NAMES | {name} if name in LOOPBACK_NAMES or name.startswith("127.") else None


def host_name(host: str) -> str:
    """Return the host of a `Host` header without its port, in small letters."""
    host = host.strip().lower()
    before, colon, port = host.rpartition(":")
    return before if colon and port.isdigit() else host
