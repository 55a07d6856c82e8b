"""Finds joins with versions in a query: `JOIN rates FOR SYSTEM_TIME AS OF orders.at`.

Spark's parser knows the clause only for tables, and with a constant time. So the clause is taken out of the text, and
the table that it belongs to gets a name by which the join is found again in Spark's plan. Options of the versions are
written as Flink's hints are: `JOIN rates /*+ OPTIONS('validFor' = '30d') */ FOR SYSTEM_TIME AS OF orders.at`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streamjob.durations import parse_duration
from streamjob.job.model.problem import Refused
from streamjob.job.model.spec_fields import spark_interval
from streamjob.job.model.suggest import did_you_mean

if TYPE_CHECKING:
    from sqlglot import Token

_AFTER = frozenset(
    (
        *("ANTI", "CLUSTER", "CROSS", "DISTRIBUTE", "EXCEPT", "FULL", "GROUP", "HAVING", "INNER", "INTERSECT", "JOIN"),
        *("LATERAL", "LEFT", "LIMIT", "MINUS", "NATURAL", "ON", "ORDER", "PIVOT", "RIGHT", "SEMI", "SORT"),
        *("TABLESAMPLE", "UNION", "UNPIVOT", "USING", "WHERE", "WINDOW"),
    )
)
"""Keywords that may follow a table, and are no alias of it."""

_COMMENT = re.compile(r"--[^\n]*|/\*(?P<hint>\+)?(?P<text>.*?)\*/", re.DOTALL)
_OPTIONS = re.compile(r"\s*OPTIONS\s*\((?P<options>.*)\)\s*", re.DOTALL | re.IGNORECASE)
_OPTION = re.compile(r"\s*'(?P<key>[^']*)'\s*=\s*'(?P<value>[^']*)'\s*")
_VALID_FOR = "validFor"

MARK = "__streamjob_versions_"
"""The beginning of the names that stand for versions."""


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions that a query joins.

    Args:
        name: the input, as it is written.
        time: the column after `AS OF`, as its parts: `orders`, `at`.
        valid_for: for how many seconds a version is valid; None for until the next one.
    """

    name: str
    time: tuple[str, ...]
    valid_for: float | None = None


@dataclass(frozen=True, slots=True)
class Marked:
    """A query without its clauses.

    Args:
        text: the query, in which the input of each clause has the name `MARK` and its number.
        versions: the versions, by that number.
    """

    text: str
    versions: tuple[Versions, ...]


class BadClause(Refused):
    """A clause `FOR SYSTEM_TIME AS OF` cannot be read; the message says why in a few words."""

    def __init__(self, what: str, fix: str = "write JOIN versions FOR SYSTEM_TIME AS OF rows.time ON …") -> None:
        super().__init__(what, fix)


def marked(sql: str) -> Marked:
    """Take the clauses out of a query.

    Raises:
        BadClause: a clause does not follow an input, or names no column.
    """
    from sqlglot import TokenType
    from sqlglot.dialects.spark import Spark
    from sqlglot.errors import TokenError

    try:
        tokens = Spark().tokenize(sql)
    except TokenError:
        return Marked(sql, ())
    pieces: list[str] = []
    found: list[Versions] = []
    at = 0
    for index, token in enumerate(tokens):
        words = [each.text.upper() for each in tokens[index : index + 4]]
        if token.token_type == TokenType.IDENTIFIER or not _begins(words):
            continue
        head = 1 if words[0].startswith("FOR ") else 2
        end = index + head + 2
        time, end = _column(tokens, end)
        name = tokens[index - 1] if index else None
        if name is None or not _is_name(name) or _text(tokens, index - 2) == ".":
            raise BadClause("FOR SYSTEM_TIME AS OF does not follow the name of an input")
        pieces += [sql[at : name.start], f"{MARK}{len(found)}"]
        if not _has_alias(tokens, end):
            pieces.append(f" AS {sql[name.start : name.end + 1]}")
        found.append(Versions(name.text, time, _valid_for(sql[name.end + 1 : token.start])))
        at = tokens[end - 1].end + 1
    return Marked("".join([*pieces, sql[at:]]), tuple(found))


def _begins(words: Sequence[str]) -> bool:
    return words[:4] == ["FOR", "SYSTEM_TIME", "AS", "OF"] or words[:3] == ["FOR SYSTEM_TIME", "AS", "OF"]


def _valid_for(between: str) -> float | None:
    """Return the option of a hint between versions and their clause, in seconds; None if there is none."""
    fix = f"write it like /*+ OPTIONS('{_VALID_FOR}' = '30d') */"
    found: dict[str, str] = {}
    for comment in _COMMENT.finditer(between):
        if not comment["hint"]:
            continue
        if (options := _OPTIONS.fullmatch(comment["text"])) is None:
            raise BadClause(f"the hint {comment[0]!r} before FOR SYSTEM_TIME AS OF is not OPTIONS", fix)
        for text in options["options"].split(","):
            if (option := _OPTION.fullmatch(text)) is None:
                raise BadClause(f"the hint before FOR SYSTEM_TIME AS OF has {text.strip()!r}, no option", fix)
            found[option["key"]] = option["value"]
    for key in found.keys() - {_VALID_FOR}:
        raise BadClause(f"versions have no option {key!r}", did_you_mean(key, [_VALID_FOR], "options"))
    if _VALID_FOR not in found:
        return None
    try:
        seconds = parse_duration(spark_interval(found[_VALID_FOR]))
    except ValueError as error:
        raise BadClause(f"the option {_VALID_FOR!r} is wrong: {error}", fix) from None
    if seconds <= 0:
        raise BadClause(f"the option {_VALID_FOR!r} must be more than 0s", fix)
    return seconds


def _column(tokens: Sequence[Token], start: int) -> tuple[tuple[str, ...], int]:
    """Return the parts of the column that begins at a token, and the number of the token behind it."""
    parts: list[str] = []
    while start < len(tokens) and _is_name(tokens[start]):
        parts.append(tokens[start].text)
        start += 1
        if _text(tokens, start) != ".":
            break
        start += 1
    if not parts or _text(tokens, start - 1) == "." or _text(tokens, start) == "(":
        raise BadClause("FOR SYSTEM_TIME AS OF names no column: it is the event time of the rows, as in orders.at")
    return tuple(parts), start


def _has_alias(tokens: Sequence[Token], index: int) -> bool:
    text = _text(tokens, index).upper()
    return text == "AS" or (index < len(tokens) and _is_name(tokens[index]) and text not in _AFTER)


def _is_name(token: Token) -> bool:
    from sqlglot import TokenType

    return token.token_type == TokenType.IDENTIFIER or token.text.replace("_", "a").isalnum()


def _text(tokens: Sequence[Token], index: int) -> str:
    return tokens[index].text if 0 <= index < len(tokens) else ""
