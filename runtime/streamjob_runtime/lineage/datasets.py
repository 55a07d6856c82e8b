"""The names of what a job reads and writes, by OpenLineage's naming conventions.

Only addresses and names go into a name: no user, no password, no other option.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from streamjob.job.connectors.options import MissingVariable, absolute_path, option, substitute
from streamjob.job.model.spec import SinkSpec, SourceSpec, TableSpec

Part = SourceSpec | TableSpec | SinkSpec
_Value = Callable[[str], str | None]

_DATABASES: Mapping[str, tuple[str, int]] = {
    "db2": ("db2", 50000),
    "mariadb": ("mysql", 3306),
    "mysql": ("mysql", 3306),
    "oracle": ("oracle", 1521),
    "postgresql": ("postgres", 5432),
    "sqlserver": ("mssql", 1433),
}
"""Scheme and port by the second word of a JDBC address."""
_BUCKETS = {"s3a": "s3", "s3n": "s3"}
_SCHEMA_OF = {"postgres": "public", "mssql": "dbo"}
_DATABASE_NAME = re.compile(r"[;?&]database(?:Name)?=([^;&]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Address:
    """The parts of an address, also of one that is none."""

    scheme: str
    netloc: str
    path: str


@dataclass(frozen=True, order=True, slots=True)
class Dataset:
    """A dataset as OpenLineage names it."""

    namespace: str
    name: str


def datasets_of(part: Part, job: str, directory: Path, environ: Mapping[str, str]) -> tuple[Dataset, ...]:
    """Return what a source or table reads, or a sink writes; a source may read several topics.

    Args:
        part: the source, table or sink.
        job: the job's namespace and name, for data that nobody else can reach.
        directory: the job file's directory.
        environ: the environment for `${env:NAME}`.
    """

    def value(name: str) -> str | None:
        found = option(part.options, name)
        if found is None:
            return None
        try:
            return substitute(found, environ)
        except MissingVariable:
            return found

    found: list[Dataset] = []
    match part.format.lower():
        case "kafka":
            namespace = f"kafka://{_first_host(value('kafka.bootstrap.servers') or '', 9092)}"
            found = [Dataset(namespace, topic) for topic in _topics(value)]
        case "postgresql":
            found = [_postgresql(value("url") or "", value("table") or "")]
        case "jdbc":
            found = list(_jdbc(value("url") or "", value("dbtable"), value("query")))
        case "iceberg":
            found = [_iceberg(value)]
        case _:
            path = value("path")
            if path is not None:
                found = [_file(absolute_path(path, directory))]
    return tuple(dict.fromkeys(found)) or (Dataset("inmemory://", f"{job}.{part.name}"),)


def _topics(value: _Value) -> Iterator[str]:
    """Yield the topics of a source or sink; a pattern stands for those that it matches."""
    if (topic := value("topic") or value("subscribePattern")) is not None:
        yield topic
    yield from (each.strip() for each in (value("subscribe") or "").split(",") if each.strip())
    if (assigned := value("assign")) is not None:
        try:
            partitions = json.loads(assigned)
        except ValueError:
            return
        if isinstance(partitions, dict):
            yield from map(str, partitions)


def _postgresql(url: str, table: str) -> Dataset:
    parts = _split(url)
    host = _first_host(parts.netloc.rpartition("@")[2], 5432)
    return Dataset(f"postgres://{host}", _table(parts.path.strip("/"), table, "postgres"))


def _jdbc(url: str, table: str | None, query: str | None) -> Iterator[Dataset]:
    plain = url.removeprefix("jdbc:")
    kind = plain.partition(":")[0].lower()
    scheme, port = _DATABASES.get(kind, (kind or "jdbc", 0))
    # Everything behind these signs is a parameter, and may be a password.
    place = re.split(r"[;?]", plain.partition("//")[2] or plain.rpartition("@")[2], maxsplit=1)[0]
    hosts, _, database = place.partition("/")
    named = _DATABASE_NAME.search(url)
    database = named[1] if named else database
    namespace = f"{scheme}://{_first_host(hosts.rpartition('@')[2], port)}"
    names = [table] if table is not None and re.fullmatch(r"[^\s()]+", table) else _tables_in(query or table or "")
    return (Dataset(namespace, _table(database, each, scheme)) for each in names)


def _tables_in(query: str) -> list[str]:
    """Return the tables of a query; none if nobody can tell."""
    import sqlglot
    from sqlglot import exp

    try:
        parsed = sqlglot.parse_one(query.strip())
    except sqlglot.errors.SqlglotError:
        return []
    defined = {each.alias for each in parsed.find_all(exp.CTE)}
    found = [".".join(part.name for part in each.parts) for each in parsed.find_all(exp.Table)]
    return [each for each in dict.fromkeys(found) if each not in defined]


def _table(database: str, table: str, scheme: str) -> str:
    plain = table.replace('"', "").replace("`", "")
    if scheme in _SCHEMA_OF and "." not in plain:
        plain = f"{_SCHEMA_OF[scheme]}.{plain}"
    return f"{database}.{plain}" if database else plain


def _iceberg(value: _Value) -> Dataset:
    table = value("table") or value("path") or ""
    uri = value("catalog.uri")
    if uri is None:
        return Dataset(f"iceberg://{value('catalog.type') or 'catalog'}", table)
    parts = _split(uri)
    host = parts.netloc.rpartition("@")[2]
    scheme = {"thrift": "hive"}.get(parts.scheme, parts.scheme.partition("+")[0])
    return Dataset(f"{scheme}://{host}{parts.path.rstrip('/')}", table)


def _file(path: str) -> Dataset:
    parts = _split(path)
    if parts.scheme in ("", "file"):
        plain = path if not parts.scheme else parts.path
        return Dataset("file", plain.rstrip("/") or "/")
    scheme = _BUCKETS.get(parts.scheme, parts.scheme)
    # The container of a storage account stands where other addresses have a user.
    place = parts.netloc if ":" not in parts.netloc.rpartition("@")[0] else parts.netloc.rpartition("@")[2]
    return Dataset(f"{scheme}://{place}", parts.path.strip("/") or "/")


def _split(url: str) -> _Address:
    try:
        found = urlsplit(url)
    except ValueError:
        return _Address("", "", url)
    return _Address(found.scheme, found.netloc, found.path)


def _first_host(hosts: str, port: int) -> str:
    """Return the first of several hosts, with its port."""
    first = hosts.split(",")[0].strip()
    # A listener's name may stand before the address.
    first = first.rpartition("://")[2]
    has_port = re.search(r":\d+$", first) is not None
    return first if has_port or not port or not first else f"{first}:{port}"
