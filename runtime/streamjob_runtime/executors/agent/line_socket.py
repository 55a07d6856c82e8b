"""The agent's end of the Unix socket to its executor's Java: a line for each question, a line for each answer."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

log = logging.getLogger("streamjob")

_THREADS = 8


class LineSocket:
    """Answers the questions of one Java at a time.

    Args:
        path: where the socket is made; a former one is replaced.
        answer: answers a question, given its verb and path; it may block, and is called by several threads.
    """

    def __init__(self, path: Path, answer: Callable[[str, str], None]) -> None:
        self.path = path
        self._answer = answer
        path.unlink(missing_ok=True)
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listening.bind(str(path))
        self._listening.listen(1)
        self._lock = threading.Lock()
        self._connection: tuple[socket.socket, threading.Lock] | None = None
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="bring")
        threading.Thread(target=self._accept, name="java-socket", daemon=True).start()

    def tell(self, line: str) -> None:
        """Send a line that is no answer. Raises OSError if there is no Java."""
        with self._lock:
            if self._connection is None:
                raise ConnectionError("the executor's Java is not there")
            connection, sending = self._connection
        with sending:
            connection.sendall(f"{line}\n".encode())

    def close(self) -> None:
        """Stop to listen; Java ends when the process does."""
        self._listening.close()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self.path.unlink(missing_ok=True)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), name="java", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        sending = threading.Lock()
        with self._lock:
            self._connection = connection, sending

        def respond(line: str) -> None:
            number, verb, path = line.split(" ", 2)
            try:
                self._answer(verb, path)
                said = "ok"
            except Exception as error:
                log.warning("%s %s failed: %s", verb, path, error)
                said = "error " + " ".join(str(error).split())
            with sending:
                connection.sendall(f"{number} {said}\n".encode())

        with connection, connection.makefile("r", encoding="utf-8", newline="\n") as lines:
            try:
                for line in lines:
                    self._pool.submit(respond, line.rstrip("\n"))
            except OSError as error:
                log.debug("Java has closed its end: %s", error)
