"""Reads a schema as Spark does: `name TYPE [NOT NULL] [COMMENT 'text'], …`, types nested to any depth.

Spark itself needs a JVM to parse a schema, but a job is checked without one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from streamjob.job.model.problem import Refused
from streamjob.job.model.suggest import did_you_mean

_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<quoted>`(?:[^`]|``)+`)
    |(?P<text>[rR]?(?:'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"))
    |(?P<number>\d+(?![\w]))
    |(?P<word>[A-Za-z0-9_]+)
    |(?P<sign>[<>(),:])""",
    re.VERBOSE | re.DOTALL,
)
_SYNONYMS = {
    "byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint", "real": "float", "dec": "decimal",
    "numeric": "decimal", "character": "char", "timestamp_ltz": "timestamp",
}  # fmt: skip
_PLAIN = {
    "bigint", "binary", "boolean", "date", "double", "float", "int", "smallint", "string", "time", "timestamp",
    "timestamp_ntz", "tinyint", "variant", "void",
}  # fmt: skip
_SIZED = {"decimal": (1, 2), "char": (1, 1), "varchar": (1, 1), "time": (1, 1), "geography": (1, 1), "geometry": (1, 1)}
_NEED_SIZE = {"char", "varchar", "geography", "geometry"}
_NESTED = {"array", "map", "struct"}
_UNITS = ("year", "month", "day", "hour", "minute", "second")
TYPES = sorted(_PLAIN | _SIZED.keys() | _NESTED | {"interval"})


class NotASchema(Refused):
    """A text is not a valid schema."""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int


def columns(schema: str) -> dict[str, str]:
    """Return the names of a schema's columns, with their types in lower case and without nested types.

    Raises:
        NotASchema: Spark would refuse the schema.
    """
    try:
        return _Reader(schema).columns()
    except RecursionError:
        raise NotASchema("is nested too deeply", "nest its types less deeply") from None


class _Reader:
    def __init__(self, schema: str) -> None:
        self._schema = schema
        self._tokens = _tokens(schema)
        self._next = 0

    def columns(self) -> dict[str, str]:
        found: dict[str, str] = {}
        folded: set[str] = set()
        while True:
            name, kind = self._column()
            if name.lower() in folded:
                raise NotASchema(f"has the column {name!r} twice", "name each column once")
            folded.add(name.lower())
            found[name] = kind
            if self._ends():
                return found
            if not self._skip(","):
                sized = "leave the size out: only DECIMAL, CHAR and VARCHAR have one; times have microseconds"
                raise self._error("a comma or the end", sized if self._tokens[self._next].text == "(" else "")

    def _column(self, *, nested: bool = False) -> tuple[str, str]:
        token = self._take("word", "quoted")
        if token is None:
            raise self._error("a column name")
        name = token.text[1:-1].replace("``", "`") if token.kind == "quoted" else token.text
        if token.kind == "word" and name.isdigit():
            raise self._error("a column name")
        # Spark accepts a colon only inside STRUCT<…>.
        if nested:
            self._skip(":")
        kind = self._type(f"the column {name!r}")
        self._constraints()
        return name, kind

    def _constraints(self) -> None:
        if self._skip("not") and not self._skip("null"):
            raise self._error("NULL after NOT")
        if self._skip("comment"):
            if self._take("text") is None:
                raise self._error("a text in quotes after COMMENT")
            while self._take("text"):
                pass

    def _type(self, owner: str) -> str:
        token = self._take("word")
        if token is None:
            raise self._error(f"a type for {owner}")
        name = _SYNONYMS.get(token.text.lower(), token.text.lower())
        if name in _NESTED:
            self._nested(name, owner)
        elif name == "interval":
            self._interval()
        elif name in _SIZED and self._skip("("):
            self._size(name)
        elif name not in _PLAIN and (name not in _SIZED or name in _NEED_SIZE):
            if name in _NEED_SIZE:
                raise self._error(f"a size, like {name.upper()}(10)")
            raise NotASchema(f"gives {owner} the unknown type {token.text!r}", did_you_mean(name, TYPES, "types"))
        elif name == "string" and self._skip("collate"):
            while self._take("word", "quoted") and self._skip("."):
                pass
        elif name == "timestamp":
            return self._zone()
        return name

    def _zone(self) -> str:
        for words, kind in ((("without",), "timestamp_ntz"), (("with", "local"), "timestamp")):
            if self._skip(words[0]):
                if all(self._skip(word) for word in (*words[1:], "time", "zone")):
                    return kind
                raise self._error("TIME ZONE")
        return "timestamp"

    def _nested(self, name: str, owner: str) -> None:
        if not self._skip("<"):
            examples = {"array": "ARRAY<INT>", "map": "MAP<STRING, INT>", "struct": "STRUCT<a: INT>"}
            raise self._error(f"what is in it, like {examples[name]}")
        if name == "struct":
            while not self._peek(">"):
                self._column(nested=True)
                if not self._skip(","):
                    break
        else:
            self._type(owner)
            if name == "map":
                if not self._skip(","):
                    raise self._error("a comma and the type of the map's values")
                self._type(owner)
        if not self._skip(">"):
            raise self._error("a closing '>'")

    def _interval(self) -> None:
        units = [unit for unit in _UNITS if self._skip(unit)]
        if units and self._skip("to") and not any(self._skip(unit) for unit in _UNITS):
            raise self._error("a unit after TO")

    def _size(self, name: str) -> None:
        sizes = [self._take("number", "word")]
        while self._skip(","):
            sizes.append(self._take("number", "word"))
        least, most = _SIZED[name]
        if None in sizes or not self._skip(")") or not least <= len(sizes) <= most:
            raise self._error(f"a size, like {'DECIMAL(10, 2)' if name == 'decimal' else name.upper() + '(10)'}")
        numbers = [int(each.text) for each in sizes if each is not None and each.kind == "number"]
        if name == "decimal" and (numbers[0] > 38 or numbers[-1] > numbers[0]):
            raise NotASchema(
                "has a DECIMAL that is too large", "it has at most 38 digits, including those after the decimal point"
            )

    def _take(self, *kinds: str) -> _Token | None:
        if self._ends() or self._tokens[self._next].kind not in kinds:
            return None
        self._next += 1
        return self._tokens[self._next - 1]

    def _peek(self, text: str) -> bool:
        return not self._ends() and self._tokens[self._next].text.lower() == text

    def _skip(self, text: str) -> bool:
        found = self._peek(text)
        self._next += found
        return found

    def _ends(self) -> bool:
        return self._next == len(self._tokens)

    def _error(self, expected: str, fix: str = "") -> NotASchema:
        if self._ends():
            return NotASchema(f"ends where {expected} should be", "write it as `name TYPE, name TYPE`")
        token = self._tokens[self._next]
        return NotASchema(f"has {token.text!r} where {expected} should be (character {token.at + 1})", fix)


def _tokens(schema: str) -> list[_Token]:
    found = []
    at = 0
    while at < len(schema):
        match = _TOKEN.match(schema, at)
        if match is None:
            raise NotASchema(f"has {schema[at]!r} where it cannot be (character {at + 1})", "put the name in backticks")
        kind = match.lastgroup or ""
        if kind != "space":
            found.append(_Token(kind, match[0], at))
        at = match.end()
    return found
