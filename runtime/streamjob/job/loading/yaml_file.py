"""Reads YAML as authors mean it: scalars as in YAML 1.2, no duplicate keys, and no unbounded growth.

PyYAML's own rules turn `no` into false, `10:30` into 630 and a date into an object, and its constructor follows aliases
and nesting without limit. So only its events are used, and each limit is checked before the work is done.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import yaml

MOST_BYTES = 1 << 20
"""Maximum size of a file: more than the Kubernetes API server stores in one resource."""
_MOST_DEPTH = 100
_MOST_VALUES = 100_000
_MOST_CHARACTERS = 4 * MOST_BYTES
_MOST_DIGITS = 100

_NOT_TEXT = re.compile("[\0\ud800-\udfff]")
_TAG = "tag:yaml.org,2002:"
_MERGE = object()
_WORDS = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    "<<": _MERGE,
}
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9_]*)")
_FLOAT = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?|\.[0-9]+|[0-9]+[eE][-+]?[0-9]+)")
_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    f"{_TAG}bool": ("true or false", lambda value: isinstance(value, bool)),
    f"{_TAG}int": ("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    f"{_TAG}float": ("a number with a point", lambda value: isinstance(value, float)),
    f"{_TAG}null": ("null", lambda value: value is None),
}


class YamlError(Exception):
    """A text is not YAML, or exceeds the limits of a job file; the message gives the position but no text."""


def read_documents(text: str) -> list[Any]:
    """Return the documents of a YAML text.

    Raises:
        YamlError: the text is not YAML, or exceeds a limit on size, depth, aliases or digits.
    """
    if len(text) > MOST_BYTES:
        raise YamlError(f"it is longer than {MOST_BYTES} characters")
    return [each for each in _Reader(text).documents() if each is not None]


def read_scalar(text: str) -> Any:
    """Return the YAML value of `text`; raises YamlError like `read_documents`."""
    documents = read_documents(text)
    return documents[0] if documents else None


@dataclass(slots=True)
class _Anchored:
    """The value of an anchor.

    Args:
        value: the value; not shared with other places.
        values: number of values in it.
        characters: total length of its texts.
        height: number of its levels.
    """

    value: Any
    values: int
    characters: int
    height: int


class _Reader:
    def __init__(self, text: str) -> None:
        self._events = _events(text)
        self._anchors: dict[str, _Anchored | None] = {}
        self._values = 0
        self._characters = 0

    def documents(self) -> Iterator[Any]:
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors = {}
                yield self._read(next(self._events), 1)[0]

    def _read(self, event: Any, depth: int) -> tuple[Any, int]:
        """Return the value that begins with `event`, and its height."""
        if depth > _MOST_DEPTH:
            raise _error(event, f"it is nested deeper than {_MOST_DEPTH} levels")
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, depth)
        anchor = event.anchor
        if anchor is not None:
            self._anchors[anchor] = None
        values, characters = self._values, self._characters
        self._count(event, 1, len(event.value) if isinstance(event, yaml.ScalarEvent) else 0)
        if isinstance(event, yaml.ScalarEvent):
            value, height = _scalar(event), 1
        elif isinstance(event, yaml.SequenceStartEvent):
            value, height = self._sequence(event, depth)
        else:
            value, height = self._mapping(event, depth)
        if anchor is not None:
            self._anchors[anchor] = _Anchored(value, self._values - values, self._characters - characters, height)
        return value, height

    def _count(self, event: Any, values: int, characters: int) -> None:
        self._values += values
        self._characters += characters
        if self._values > _MOST_VALUES:
            raise _error(event, f"it holds more than {_MOST_VALUES} values, aliases included")
        if self._characters > _MOST_CHARACTERS:
            raise _error(event, f"it holds more than {_MOST_CHARACTERS} characters, aliases included")

    def _alias(self, event: Any, depth: int) -> tuple[Any, int]:
        if event.anchor not in self._anchors:
            raise _error(event, f"there is no anchor {_quoted(event.anchor)} before this alias")
        named = self._anchors[event.anchor]
        if named is None:
            raise _error(event, f"the alias {_quoted(event.anchor)} is inside the value that it names")
        if depth + named.height - 1 > _MOST_DEPTH:
            raise _error(event, f"it is nested deeper than {_MOST_DEPTH} levels, aliases included")
        self._count(event, named.values, named.characters)
        # A copy, so that a change in one place does not affect the others.
        return copy.deepcopy(named.value), named.height

    def _sequence(self, start: Any, depth: int) -> tuple[list[Any], int]:
        _check_tag(start, "seq")
        elements, height = [], 0
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            value, below = self._read(event, depth + 1)
            elements.append(_plain(value))
            height = max(height, below)
        return elements, height + 1

    def _mapping(self, start: Any, depth: int) -> tuple[dict[Any, Any], int]:
        _check_tag(start, "map")
        merged: dict[Any, Any] = {}
        own: dict[Any, Any] = {}
        seen: set[str] = set()
        height = 0
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            if isinstance(event, yaml.CollectionStartEvent):
                raise _error(event, "a list or a mapping cannot be a key")
            key, _ = self._read(event, depth + 1)
            if isinstance(key, list | dict):
                raise _error(event, "a list or a mapping cannot be a key")
            name = "<<" if key is _MERGE else str(key)
            if name in seen or key in own:
                raise _error(event, f"the key {_quoted(name)} is there twice")
            seen.add(name)
            first = next(self._events)
            value, below = self._read(first, depth + 1)
            height = max(height, below, 1)
            if key is _MERGE:
                merged = _merge(first, value)
            else:
                own[key] = _plain(value)
        return {**merged, **own}, height + 1


def _events(text: str) -> Iterator[Any]:
    """Yield the events of a text; errors of PyYAML become YamlError."""
    if (found := _NOT_TEXT.search(text)) is not None:
        raise YamlError(f"{_place_in(text, found.start())}the character U+{ord(found[0]):04X} cannot be in it")
    loader: Any = None
    try:
        # The parser keeps its own stack, so depth causes no recursion.
        loader = yaml.SafeLoader(text)
        while loader.check_event():
            yield loader.get_event()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise YamlError(f"{place}{error.problem or error.context}") from None
    except yaml.reader.ReaderError as error:
        code = error.character if isinstance(error.character, int) else ord(error.character)
        raise YamlError(f"{_place_in(text, error.position)}the character U+{code:04X} cannot be in it") from None
    except (yaml.YAMLError, ValueError, OverflowError):
        # An escape such as "\UFFFFFFFF" is not a character.
        place = f"line {loader.line + 1}, column {loader.column + 1}: " if loader else ""
        raise YamlError(f"{place}it cannot be read") from None


def _place_in(text: str, position: int) -> str:
    before = text[:position]
    return f"line {before.count(chr(10)) + 1}, column {position - (before.rfind(chr(10)) + 1) + 1}: "


def _error(event: Any, what: str) -> YamlError:
    mark = event.start_mark
    return YamlError(f"line {mark.line + 1}, column {mark.column + 1}: {what}")


def _scalar(event: Any) -> Any:
    text: str = event.value
    if (found := _NOT_TEXT.search(text)) is not None:
        raise _error(event, f"it holds the character U+{ord(found[0]):04X}, which no text of a job can have")
    tag = event.tag
    if tag is None:
        return _resolved(event, text) if event.implicit[0] else text
    if tag in ("!", f"{_TAG}str"):
        return text
    if tag not in _KINDS:
        raise _error(event, f"a job file has no tags but !!str, !!int, !!float, !!bool and !!null, not {_quoted(tag)}")
    value = _resolved(event, text)
    expected, fits = _KINDS[tag]
    if not fits(value):
        raise _error(event, f"its tag says that it is {expected}, and it is not")
    return value


def _resolved(event: Any, text: str) -> Any:
    """Return the value of an unquoted text."""
    if text in _WORDS:
        return _WORDS[text]
    integer = _INTEGER.fullmatch(text)
    if not integer and not _FLOAT.fullmatch(text):
        return text
    digits = text.replace("_", "")
    if len(digits) > _MOST_DIGITS:
        raise _error(event, f"a number has at most {_MOST_DIGITS} digits; put it in quotes if it is a text")
    return int(digits) if integer else float(digits)


def _check_tag(event: Any, kind: str) -> None:
    if event.tag not in (None, "!", f"{_TAG}{kind}"):
        raise _error(event, f"a list or a mapping has no tag here, not {_quoted(event.tag)}")


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:80]}…")


def _plain(value: Any) -> Any:
    return "<<" if value is _MERGE else value


def _merge(event: Any, value: Any) -> dict[Any, Any]:
    """Return the entries that `<<` merges into a mapping; the first of several mappings wins."""
    mappings = value if isinstance(value, list) else [value]
    if not all(isinstance(each, dict) for each in mappings):
        raise _error(event, "the value of `<<` must be a mapping or a list of mappings")
    return {key: each for mapping in reversed(mappings) for key, each in mapping.items()}
