"""The names of what a connector reads and writes, by OpenLineage's naming conventions.

Only addresses and names go into a name: no user, no password, no other option.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

Values = Callable[[str], str | None]
"""Returns the value of an option, or None."""

_BUCKETS = {"s3a": "s3", "s3n": "s3"}
_SCHEMA_OF = {"postgres": "public", "mssql": "dbo"}


@dataclass(frozen=True, order=True, slots=True)
class Dataset:
    """A dataset as OpenLineage names it."""

    namespace: str
    name: str


def file_dataset(path: str) -> Dataset:
    """Return the name of files, by their absolute path or URI."""
    parts = split_address(path)
    if parts.scheme in ("", "file"):
        plain = path if not parts.scheme else parts.path
        return Dataset("file", plain.rstrip("/") or "/")
    scheme = _BUCKETS.get(parts.scheme, parts.scheme)
    # The container of a storage account stands where other addresses have a user.
    place = parts.netloc if ":" not in parts.netloc.rpartition("@")[0] else parts.netloc.rpartition("@")[2]
    return Dataset(f"{scheme}://{place}", parts.path.strip("/") or "/")


def split_address(url: str) -> SplitResult:
    """Return the parts of an address; one that is none has only a path."""
    try:
        return urlsplit(url)
    except ValueError:
        return SplitResult("", "", url, "", "")


def first_host(hosts: str, port: int) -> str:
    """Return the first of several hosts, with its port."""
    first = hosts.split(",")[0].strip()
    # A listener's name may stand before the address.
    first = first.rpartition("://")[2]
    has_port = re.search(r":\d+$", first) is not None
    return first if has_port or not port or not first else f"{first}:{port}"


def table_name(database: str, table: str, scheme: str) -> str:
    """Return the name of a table in a database, with its schema."""
    plain = table.replace('"', "").replace("`", "")
    if scheme in _SCHEMA_OF and "." not in plain:
        plain = f"{_SCHEMA_OF[scheme]}.{plain}"
    return f"{database}.{plain}" if database else plain
