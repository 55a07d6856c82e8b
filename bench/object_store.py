"""The S3 server of the benchmark, and what its access log says about requests and bytes."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.processes import environment
from tests.servers.process import ServerMissing
from tests.servers.s3 import S3Server

# owner bucket [time] address requester id operation key "uri" status error sent size …; a key may hold blanks.
_LINE = re.compile(r"\] \S+ \S+ \S+ s3_(?P<operation>\w+) .* (?P<status>\d{3}) \S+ \d+ (?P<size>\d+) \d+ \d+ ")


@dataclass(frozen=True, slots=True)
class Traffic:
    """Requests by operation, and the bytes of the objects that were put."""

    requests: dict[str, int]
    put_bytes: int

    @property
    def total(self) -> int:
        """Requests of all operations."""
        return sum(self.requests.values())


def traffic(lines: Iterable[str]) -> Traffic:
    """Read versitygw's access log."""
    requests: Counter[str] = Counter()
    size = 0
    for line in lines:
        found = _LINE.search(line)
        if found is None:
            continue
        requests[found["operation"]] += 1
        if found["operation"] == "PutObject" and found["status"] == "200":
            size += int(found["size"])
    return Traffic(dict(sorted(requests.items())), size)


class ObjectStore:
    """A running server.

    Args:
        server: the server.
        log: its access log.
    """

    def __init__(self, server: S3Server, log: Path) -> None:
        self.server = server
        self._log = log

    def position(self) -> int:
        """Return where the log ends now."""
        return self._log.stat().st_size

    def since(self, position: int) -> Traffic:
        """Return what passed since `position`."""
        with self._log.open("rb") as file:
            file.seek(position)
            return traffic(line.decode() for line in file)

    def has_read(self, key: str, position: int) -> bool:
        """Return whether someone has asked for an object since `position`; its key holds no blank."""
        with self._log.open("rb") as file:
            file.seek(position)
            return f" s3_GetObject {key} ".encode() in file.read()


@contextlib.contextmanager
def object_store(directory: Path) -> Iterator[ObjectStore]:
    """Run versitygw over an empty directory.

    Raises:
        ServerMissing: there is no versitygw.
    """
    directory.mkdir(parents=True)
    log = directory / "access.log"
    log.touch()
    server = S3Server(directory / "data")
    if not server.is_versitygw:
        raise ServerMissing("the benchmark counts requests in versitygw's log: set VERSITYGW, or put it on the PATH")
    # The server takes its log's place from the environment that it inherits, as the measured processes do its address.
    with environment({"VGW_ACCESS_LOG": str(log)}), server, environment(server.environment):
        yield ObjectStore(server, log)
