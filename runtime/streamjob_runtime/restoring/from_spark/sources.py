"""Matches a query's sources with a job's, by the data that they have read or by their order; pure functions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from streamjob.ids import OperatorUid
from streamjob.job.connectors.options import option
from streamjob.job.model.formats import FILE_FORMATS
from streamjob.job.model.spec import SourceSpec
from streamjob_runtime.restoring.from_spark.errors import OtherSources
from streamjob_runtime.spark.checkpoint_dir.file_entries import last_read_by_spark
from streamjob_runtime.spark.checkpoint_dir.logs import VOID_OFFSET

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(//)?")
_PATTERN = re.compile(r"[*?\[{]")
_HADOOP = {"s3a": "s3", "s3n": "s3"}
_FIX = "give the job the sources of the query, in its order"


@dataclass(frozen=True, slots=True)
class QuerySource:
    """A source of the query.

    Args:
        offset: its position as JSON, from the offset log.
        files: some of the files that it has read, from its own log.
    """

    offset: str
    files: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """Its kind: `files`, `kafka`, or `any` if unknown."""
        value = self._value()
        if last_read_by_spark(value) is not None:
            return "files"
        if isinstance(value, dict) and value and all(isinstance(each, dict) for each in value.values()):
            return "kafka"
        return "any"

    @property
    def topics(self) -> frozenset[str]:
        """The Kafka topics that it reads."""
        value = self._value()
        return frozenset(value) if isinstance(value, dict) and self.kind == "kafka" else frozenset()

    def _value(self) -> object:
        if self.offset == VOID_OFFSET:
            return None
        try:
            return json.loads(self.offset)
        except ValueError:
            return None


def match_sources(
    found: Sequence[QuerySource],
    sources: Sequence[SourceSpec],
    options: Mapping[OperatorUid, Mapping[str, str]],
    uri: str,
) -> tuple[SourceSpec, ...]:
    """Return the job's sources in the order of the query's.

    The data that they have read (directories of files, topics of Kafka) identifies them, otherwise their order.

    Args:
        options: their options for connectors, by uid.

    Raises:
        OtherSources: numbers or kinds differ, or the query has read data that no source of the job reads.
    """
    names = ", ".join(source.uid for source in sources)
    if len(found) != len(sources):
        what = f"The query at {uri} has {len(found)} sources, and the job has {len(sources)}: {names}"
        raise OtherSources(what, _FIX)
    matched = next(_assignments(found, sources, options), None)
    if matched is not None:
        return matched
    what = f"The query at {uri} has read {_read(found)}, and the job's sources do not read that: {names}"
    raise OtherSources(what, _FIX)


def _assignments(
    found: Sequence[QuerySource], left: Sequence[SourceSpec], options: Mapping[OperatorUid, Mapping[str, str]]
) -> Iterator[tuple[SourceSpec, ...]]:
    """Yield the ways to assign the job's sources to the query's, starting with the job's order."""
    if not found:
        yield ()
        return
    for number, source in enumerate(left):
        if _fits(found[0], source, options[source.uid]):
            for rest in _assignments(found[1:], [*left[:number], *left[number + 1 :]], options):
                yield source, *rest


def _fits(found: QuerySource, source: SourceSpec, options: Mapping[str, str]) -> bool:
    """Return whether nothing contradicts the assignment."""
    kind = _kind_of_format(source.format)
    if "any" not in (kind, found.kind) and kind != found.kind:
        return False
    if kind == "files" and (path := option(options, "path")) is not None:
        return all(_is_below(file, path) for file in found.files)
    return kind != "kafka" or all(_subscribes(options, topic) for topic in found.topics)


def _kind_of_format(name: str) -> str:
    if name.lower() in FILE_FORMATS:
        return "files"
    return "kafka" if name.lower() == "kafka" else "any"


def _is_below(file: str, path: str) -> bool:
    """Return whether a file may have been found at a path, which may be a pattern."""
    place, pattern = _place(unquote(file)), _PATTERN.search(path)
    if pattern is not None:
        return place.startswith(_place(path[: pattern.start()]))
    root = _place(path).rstrip("/")
    return place == root or place.startswith(f"{root}/")


def _place(path: str) -> str:
    """Return a path or URI in canonical form: `file:/x`, `file:///x` and `/x` are the same."""
    match = _SCHEME.match(path)
    if match is None or match[1] == "file":
        return "/" + (path if match is None else path[match.end() :]).lstrip("/")
    return f"{_HADOOP.get(match[1], match[1])}://{path[match.end() :]}"


def _subscribes(options: Mapping[str, str], topic: str) -> bool:
    if (names := option(options, "subscribe")) is not None:
        return topic in {name.strip() for name in names.split(",")}
    if (assigned := option(options, "assign")) is not None:
        return f'"{topic}"' in assigned
    # It is a Java pattern, which Python may interpret differently.
    return True


def _read(found: Sequence[QuerySource]) -> str:
    return " and ".join(
        ", ".join(sorted(each.topics)) or (each.files[0] if each.files else f"{each.kind} sources") for each in found
    )
