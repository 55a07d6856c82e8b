"""The server's certificate, read again whenever its files change: Secrets are renewed while their pods run."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

from streamjob.errors import InvalidInput

_log = logging.getLogger(__name__)
_Versions = tuple[tuple[int, int], ...]


class Certificate:
    """The files `tls.crt` and `tls.key` of a directory, as a Secret of type `kubernetes.io/tls` has them.

    Args:
        directory: where they are.

    Raises:
        InvalidInput: they are missing, or do not belong together.
    """

    def __init__(self, directory: Path) -> None:
        self._files = (directory / "tls.crt", directory / "tls.key")
        try:
            self._versions = self._look()
            self._context = self._load()
        except OSError as error:
            raise InvalidInput(
                f"{directory} has no certificate that can be served: {error}",
                "Put tls.crt and its key tls.key there, both in PEM.",
            ) from None

    def listening(self) -> ssl.SSLContext:
        """Return a context for a server, which serves each connection with the certificate of that moment."""
        context = self._load()
        context.sni_callback = self._choose
        return context

    def _choose(self, connection: ssl.SSLSocket | ssl.SSLObject, _name: str | None, _: ssl.SSLContext) -> None:
        try:
            versions = self._look()
            if versions != self._versions:
                self._context, self._versions = self._load(), versions
        except OSError as error:
            _log.error("the renewed certificate cannot be served, the one before it is: %s", error)
        connection.context = self._context

    def _load(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*self._files)
        return context

    def _look(self) -> _Versions:
        return tuple((found.st_mtime_ns, found.st_ino) for found in (file.stat() for file in self._files))
