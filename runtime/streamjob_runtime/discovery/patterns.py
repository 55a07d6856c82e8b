"""Which objects or files are a source's: patterns of paths, hidden names, and the columns of partitions.

The rules are those of Spark's file source (`HadoopFSUtils.shouldFilterOutPathName`, `PartitioningUtils`) and of
Hadoop's patterns (`GlobPattern`) and paths (`Path`).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from streamjob.errors import ExitCode, InvalidInput, JobFailed
from streamjob.job.connectors.options import option

_PATH = re.compile(r"(?:(?P<scheme>[a-z][a-z0-9+.-]*):)?(?://(?P<authority>[^/]*))?/*(?P<key>.*)", re.I | re.DOTALL)
_LITERAL = re.compile(r"(?:\\.|[^\\{}\[\]*?])*", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_TOKEN = re.compile(r"\\(?P<escaped>.)|\[(?P<no>[!^]?)(?P<set>\]?(?:\\.|[^\[\]\\/])+|\])\]|(?P<one>.)", re.DOTALL)
_OF_SET = re.compile(r"\\(.)|([^\w-])", re.DOTALL)
_MEANINGS = {"*": "[^/]*", "?": "[^/]", "{": "(?:", "}": ")", ",": "|"}

_HIDDEN_FILE = re.compile(r"\.|_[^=]*\Z|.*\._COPYING_\Z", re.DOTALL)
_DIRECTORY = r"(?!(?!_metadata|_common_metadata)(?:\.|_[^/=]*/|[^/]*\._COPYING_/))[^/]+/"
_PARTITION = f"(?=[^/]*=){_DIRECTORY}"
_NO_PATH = re.compile(r"(?:^|/)\.{0,2}(?:/|\Z)")
"""A key with an empty segment, `.` or `..`: Hadoop's `Path` would make another key of it."""
_NULL = "__HIVE_DEFAULT_PARTITION__"
_HEXADECIMAL = re.compile(r"%([0-9A-Fa-f]{2})")


class InvalidPattern(InvalidInput):
    """The path of a source, or an option that chooses among its files, cannot be used."""


class UnreadableKey(JobFailed):
    """Spark cannot read an object of a source by its key; the job's last completed checkpoint is intact."""

    exit_code = ExitCode.INVALID_INPUT


class SourceFiles:
    """The files that a source reads, objects or local ones: those that its path names, or that are directly in the
    directory that it names.

    Those in directories of partitions (`name=value`) count as directly in it; with `recursiveFileLookup`, those of all
    directories do. Hidden are names that begin with `.` or `_`, of files and of directories below the path.

    Args:
        path: `s3://bucket/key`, an absolute path, or a URI of another file system of Hadoop; it may be a pattern.
        options: the source's; `recursiveFileLookup`, `pathGlobFilter`, `modifiedAfter`, `modifiedBefore`, `timeZone`
            and `basePath` count here.

    Raises:
        InvalidPattern: the path or one of these options cannot be used.
    """

    def __init__(self, path: str, options: Mapping[str, str]) -> None:
        self.base, key = _split(path)
        """What the URIs of all files begin with, before their keys; `/` for local ones, whose URIs are paths."""
        key = _normal(key)
        literal = _LITERAL.match(key)
        assert literal is not None
        self.prefix = _ESCAPED.sub(r"\1", literal[0])
        """What the keys of all its files begin with."""
        self.named: str | None = None
        """The key of the one object that the path may name instead of a directory; None if it cannot."""
        self.is_pattern = literal[0] != key
        """Whether the path is a pattern."""
        is_directory = literal[0] == key and key != ""
        if is_directory:
            self.named = None if path.endswith("/") else self.prefix
            self.prefix += "/"
        self._is_recursive = (option(options, "recursiveFileLookup") or "").lower() == "true"
        directories = f"(?:{_DIRECTORY})*" if self._is_recursive else f"(?:{_PARTITION}(?:{_DIRECTORY})*)?"
        below = f"(?P<below>{directories})[^/]+"
        may_be_file = "" if is_directory and self.named is None else "?"
        self._keys = _compiled(f"{_regex(key, path)}(?:/{below}){may_be_file}" if key else below, path)
        names = option(options, "pathGlobFilter")
        self._names = None if names is None else _compiled(_regex(names, names), names)
        root = option(options, "basePath")
        self._base = None if root is None else directory_of(root)
        self._entered = _entered(key, directories, path)
        zone = option(options, "timeZone") or "UTC"
        self._after = _time(options, "modifiedAfter", zone, float("-inf"))
        self._before = _time(options, "modifiedBefore", zone, float("inf"))

    def enters(self, directory: str) -> bool:
        """Return whether files of the source may be in a directory, or below it.

        Args:
            directory: its key, with a slash at the end.
        """
        return self._entered is None or self._entered.fullmatch(directory) is not None

    def is_of_source(self, key: str, modified_ms: int) -> bool:
        """Return whether an object is a file of the source.

        Args:
            modified_ms: when it was written, in ms since 1970.

        Raises:
            UnreadableKey: it is, and Spark cannot read it.
        """
        name = key[key.rfind("/") + 1 :]
        if not name or _HIDDEN_FILE.match(name) or not self._after < modified_ms < self._before:
            return False
        is_no_path = _NO_PATH.search(key)
        if self._keys.fullmatch(_normal(key) if is_no_path else key) is None:
            return False
        if self._names is not None and self._names.fullmatch(name) is None:
            return False
        if is_no_path:
            raise UnreadableKey(
                f"Spark cannot read {self.base}{key}: Hadoop takes its key for {_normal(key)}",
                "give the object a key without //, /./ and /../, or leave it out by a narrower path or pathGlobFilter",
            )
        return True

    def root_of(self, key: str) -> str:
        """Return the part of a file's key before the directories that name columns, with a slash at its end."""
        if self._base is not None and key.startswith(self._base):
            return self._base
        match = self._keys.fullmatch(key)
        if self._is_recursive or match is None or match["below"] is None:
            return key[: key.rfind("/") + 1]
        return key[: match.start("below")]

    def partition_columns(self, key: str) -> dict[str, str | None]:
        """Return the columns that a file's directories name below the path, or below the option `basePath`.

        Raises:
            UnreadableKey: a directory names a column without a name or value.
        """
        match = self._keys.fullmatch(key)
        below = (match["below"] if match else None) or ""
        if self._base is not None and key.startswith(self._base):
            below = key[len(self._base) :].rpartition("/")[0]
        columns: dict[str, str | None] = {}
        for each in below.split("/") if not self._is_recursive else ():
            name, is_partition, value = each.partition("=")
            if is_partition and not (name and value):
                raise UnreadableKey(
                    f"Spark cannot read {self.base}{key}: its directory {each} names a column without "
                    f"{'a value' if name else 'a name'}",
                    f"move the object, or let its producer write {_NULL} for no value",
                )
            if is_partition:
                columns[_unescaped(name)] = None if value == _NULL else _unescaped(value)
        return columns


def directory_of(path: str) -> str:
    """Return what the keys of the files below a directory begin with; its name is not taken for a pattern."""
    return f"{_normal(_split(path)[1])}/".removeprefix("/")


def _entered(key: str, below: str, path: str) -> re.Pattern[str] | None:
    """Return the directories that a listing enters; None if it enters all."""
    result = below
    for part in reversed(key.split("/") if key else ()):
        try:
            result = f"(?:{_regex(part, path)}/{result})?"
        except InvalidPattern:
            # A brace has a slash in it.
            return None
    return _compiled(result, path)


def _split(path: str) -> tuple[str, str]:
    """Return what the URIs of the files of a path's file system begin with, and the rest of the path."""
    parts = _PATH.fullmatch(path)
    assert parts is not None
    scheme = (parts["scheme"] or "file").lower()
    if scheme == "file":
        return "/", parts["key"]
    if scheme in ("s3", "s3a") and not parts["authority"]:
        raise InvalidPattern(f"the path {path} names no bucket", "write s3://bucket/directory")
    return f"{'s3a' if scheme == 's3' else scheme}://{parts['authority'] or ''}/", parts["key"]


def _normal(key: str) -> str:
    """Return what is left of a key in Hadoop's `Path`."""
    return posixpath.normpath(f"/{key.lstrip('/')}")[1:]


def _regex(pattern: str, shown: str) -> str:
    """Return the regular expression for a pattern of Hadoop."""
    result, groups = [], 0
    for token in _TOKEN.finditer(pattern):
        one = token["one"]
        if token["set"]:
            some = _OF_SET.sub(lambda each: re.escape(each[1] or each[2]), token["set"])
            result.append(f"(?!/)[{'^' if token['no'] else ''}{some}]")
        elif token["escaped"]:
            result.append(re.escape(token["escaped"]))
        elif one in "[\\":
            raise InvalidPattern(
                f"the pattern {shown} has a {one} that nothing ends", f"write \\{one} for the character"
            )
        else:
            is_plain = one not in _MEANINGS or (one in ",}" and not groups)
            result.append(re.escape(one) if is_plain else _MEANINGS[one])
            groups += {"{": 1, "}": -1}.get(one, 0) if not is_plain else 0
    if groups:
        raise InvalidPattern(f"the pattern {shown} has a {{ that no }} ends", "write \\{ for the character")
    return "".join(result)


def _compiled(regex: str, shown: str) -> re.Pattern[str]:
    try:
        return re.compile(regex, re.DOTALL)
    except re.error as error:
        raise InvalidPattern(f"the pattern {shown} cannot be used: {error.msg}", "correct it") from error


def _time(options: Mapping[str, str], name: str, zone: str, default: float) -> float:
    """Return the time that an option names, in ms since 1970."""
    value = option(options, name)
    if value is None:
        return default
    try:
        time = datetime.fromisoformat(value)
        return (time if time.tzinfo else time.replace(tzinfo=ZoneInfo(zone))).timestamp() * 1000
    except (ValueError, ZoneInfoNotFoundError) as error:
        fix = "write it with its offset: 2026-01-31T12:00:00+02:00"
        raise InvalidPattern(f"{name} is {value!r}: {error}", fix) from error


def _unescaped(name: str) -> str:
    return _HEXADECIMAL.sub(lambda each: chr(int(each[1], 16)), name)
