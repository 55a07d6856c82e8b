"""Analyses a query without Spark: whether it parses, its inputs, and its stateful parts."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from sqlglot import Token, exp

    from streamjob.job.model.spec import OutputMode

_WATERMARK = re.compile(r"\bwatermark\b.+?\bdelay\s+of\b", re.IGNORECASE | re.DOTALL)
_OF_FLINK = re.compile(
    r"\b(?P<function>(?P<kind>TUMBLE|HOP|CUMULATE|SESSION)(?:_START|_END|_ROWTIME|_PROCTIME)?)\s*"
    r"\((?=[^;]*\b(?:DESCRIPTOR|INTERVAL)\b|\s*TABLE\b)",
    re.IGNORECASE,
)
_WINDOWS = {
    "TUMBLE": "group by a window: SELECT window.start, … GROUP BY window(time, '1 minute'), …",
    "HOP": "group by a sliding window, its size before its step: SELECT window.start, … "
    "GROUP BY window(time, '10 minutes', '1 minute'), …",
    "SESSION": "group by a session: SELECT session_window.start, … GROUP BY session_window(time, '5 minutes'), …",
    "CUMULATE": "Spark has no windows that grow: GROUP BY window(time, '1 hour'), …, perhaps with outputMode: update",
}
_NOT_CODE = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_SPARK_PLACE = re.compile(r"\s*\(line (?P<line>\d+), pos (?P<before>\d+)\)")
_TOKEN_REPR = re.compile(r"<Token .*?text: (.*?), line:.*?>")


_TOO_DEEP = "it is nested too deeply"
_MOST_OPEN_JOINS = 8


class NotAQuery(Exception):
    """A text is not a single query; the message explains why in a few words.

    Args:
        what: why.
        line: the line of the mistake in the text, from 1; 0 if it is not known.
        column: its column, from 1; 0 if it is not known.
        fix: what to write instead.
    """

    def __init__(self, what: str, line: int = 0, column: int = 0, fix: str = "correct the query") -> None:
        place = f" (line {line}, column {column})" if line else ""
        super().__init__(what + place)
        self.what = what
        self.line = line
        self.column = column
        self.fix = fix


@dataclass(frozen=True, slots=True)
class Join:
    """A join of inputs.

    Args:
        kind: as written: `LEFT JOIN`.
        inputs: the inputs on both sides, in lower case.
    """

    kind: str
    inputs: frozenset[str]


@dataclass(frozen=True, slots=True)
class Query:
    """The properties of a query, as far as they are known.

    Args:
        tables: its inputs, in lower case; None if only Spark can read the query.
        aggregation: the keywords that aggregate, such as `GROUP BY`; None if it does not aggregate.
        state_joins: its joins that Spark accepts on streams only with a watermark.
        temporal_joins: its joins with versions, `FOR SYSTEM_TIME AS OF`; of their inputs, those with the versions.
        unsupported: keywords that streaming queries do not support, such as `ORDER BY`.
        modes: Spark's output modes in which it yields the same rows as in append mode.
        sets_watermark: whether it sets a watermark itself; then nothing more is known about it.
    """

    tables: frozenset[str] | None = None
    aggregation: str | None = None
    state_joins: tuple[Join, ...] = ()
    temporal_joins: tuple[Join, ...] = ()
    unsupported: tuple[str, ...] = ()
    modes: frozenset[OutputMode] = frozenset({"append"})
    sets_watermark: bool = False


def read_query(
    sql: str, spark_parser: Callable[[str], str | None] | None = None, static: Set[str] = frozenset()
) -> Query:
    """Analyse a query.

    Args:
        sql: a query in Spark's SQL.
        spark_parser: called if sqlglot cannot read the query; returns why Spark cannot either, or None if it can.
        static: the names, in lower case, of tables that are no streams.

    Raises:
        NotAQuery: it does not parse, or is not exactly one query.
    """
    if _WATERMARK.search(_NOT_CODE.sub(" ", sql)):
        return Query(sets_watermark=True)
    _refuse_windows_of_flink(sql)
    try:
        tree = parse(sql)
    except Unread as error:
        if spark_parser is None:
            raise NotAQuery(error.what, error.line, error.column) from None
        if (reason := spark_parser(sql)) is not None:
            raise _refused(reason) from None
        return Query()
    try:
        return _describe(tree, static)
    except RecursionError:
        raise NotAQuery(_TOO_DEEP) from None


def without_texts(sql: str) -> str:
    """Return a query with spaces in place of its texts in quotes and its comments; columns stay where they are."""
    return _NOT_CODE.sub(lambda found: " " * len(found[0]), sql)


def _refuse_windows_of_flink(sql: str) -> None:
    """Raise NotAQuery for a window function of Flink's SQL: parsers name another place, and Spark no such function."""
    found = _OF_FLINK.search(without_texts(sql))
    if found is None:
        return
    function, line = found["function"].upper(), sql.count("\n", 0, found.start()) + 1
    column = found.start() - (sql.rfind("\n", 0, found.start()) + 1) + 1
    what, fix = f"Spark has no function {function}, which is Flink's", _WINDOWS[found["kind"].upper()]
    raise NotAQuery(what, line, column, fix)


def _refused(reason: str) -> NotAQuery:
    """Return Spark's reason, with its place; Spark counts columns from 0."""
    place = _SPARK_PLACE.search(reason)
    if place is None:
        return NotAQuery(reason)
    return NotAQuery(_SPARK_PLACE.sub("", reason), int(place["line"]), int(place["before"]) + 1)


@lru_cache(maxsize=1000)
def stateful_parts(sql: str, static: frozenset[str] = frozenset()) -> tuple[str, ...] | None:
    """Return the stateful parts of a streaming query: `aggregation`, `join`, `temporal`, `limit`; None if unknown.

    Args:
        sql: the query.
        static: the names, in lower case, of tables that are no streams.
    """
    if _WATERMARK.search(_NOT_CODE.sub(" ", sql)):
        return None
    try:
        return _stateful_parts(_without_static(parse(sql), static))
    except (Unread, NotAQuery, RecursionError):
        return None


def _stateful_parts(tree: exp.Query) -> tuple[str, ...] | None:
    from sqlglot import exp

    if tree.find(exp.CTE):
        return None
    parts: list[str] = []
    for query in tree.find_all(exp.Query):
        if not _reads_tables(query):
            continue
        if query.args.get("limit"):
            parts.append("limit")
        if isinstance(query, exp.Union):
            parts += ["aggregation"] * bool(query.args.get("distinct"))
        elif isinstance(query, exp.Select):
            parts += ["aggregation"] * bool(query.args.get("distinct"))
            parts += ["aggregation"] * bool(query.args.get("group") or aggregate_of(query))
            joins = [join for join in query.args.get("joins") or () if _reads_tables(join.this)]
            parts += ["temporal" if _is_temporal(join) else "join" for join in joins]
    return tuple(parts)


class Unread(NotAQuery):
    """sqlglot cannot read a text as a query; perhaps Spark can."""


def parse(sql: str) -> exp.Query:
    """Return the tree of a query.

    Raises:
        Unread: sqlglot cannot read it; perhaps Spark can.
        NotAQuery: it is not exactly one query.
    """
    from sqlglot import exp
    from sqlglot.errors import ParseError, TokenError

    try:
        trees = [each for each in _trees(sql) if each is not None]
    except ParseError as error:
        first = error.errors[0]
        reason = _TOKEN_REPR.sub(r"\1", str(first["description"])).rstrip(".")
        # sqlglot counts columns up to the end of the word.
        column = int(first["col"]) - len(str(first["highlight"])) + 1
        raise Unread(f"{reason} near {first['highlight']!r}", int(first["line"]), max(1, column)) from None
    except RecursionError:
        # Spark's own parser recurses, too, and fails with a StackOverflowError.
        raise NotAQuery(_TOO_DEEP) from None
    except TokenError:
        raise Unread("it is cut off, or a quote is not closed") from None
    if not trees:
        raise NotAQuery("it is empty")
    if len(trees) > 1:
        raise NotAQuery(f"it is {len(trees)} statements, not one query")
    (tree,) = trees
    if isinstance(tree, exp.Command):
        raise Unread(f"it is not a query, but {str(tree.this).upper()}")
    if any(not each.expressions for each in tree.find_all(exp.Select)):
        raise Unread("SELECT names no columns")
    if any(not any(each.args.values()) for each in tree.find_all(exp.Group)):
        raise Unread("GROUP BY names no columns")
    if isinstance(tree, exp.Query | exp.Values):
        return cast("exp.Query", tree)
    if isinstance(tree, exp.Condition | exp.Alias):
        raise Unread("it is not a query")
    raise NotAQuery(f"it is not a query, but {tree.key.upper()}")


def _check_joins(tokens: Iterable[Token]) -> None:
    """Refuse many joins without a condition: sqlglot parses everything after such a join twice."""
    from sqlglot import TokenType

    without, before = 0, None
    for token in tokens:
        kind = token.token_type
        if kind == TokenType.JOIN and before != TokenType.CROSS:
            without += 1
        elif kind in (TokenType.ON, TokenType.USING):
            without = max(0, without - 1)
        if without > _MOST_OPEN_JOINS:
            raise NotAQuery(f"it has more than {_MOST_OPEN_JOINS} joins without a condition: give each ON or USING")
        before = kind


def _trees(sql: str) -> list[exp.Expr | None]:
    from sqlglot import TokenType
    from sqlglot.dialects.spark import Spark

    # sqlglot only warns about statements that it keeps as text; here they are errors.
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    dialect = Spark()
    tokens = dialect.tokenize(sql)
    _check_joins(tokens)
    for index, token in enumerate(tokens):
        following = [each.token_type for each in tokens[index + 2 : index + 4]]
        # `window` of event time is a function or a column, but sqlglot takes it for the clause.
        if token.token_type == TokenType.WINDOW and following != [TokenType.ALIAS, TokenType.L_PAREN]:
            token.token_type = TokenType.VAR
    return dialect.parser().parse(tokens, sql)


def _without_static(tree: exp.Query, static: Set[str]) -> exp.Query:
    """Return a tree in which tables that are no streams look like table functions, which are none either."""
    from sqlglot import exp

    for table in list(tree.find_all(exp.Table)):
        if (name := _table(table)) in static:
            table.set("this", exp.Anonymous(this=name))
    return tree


def _describe(tree: exp.Query, static: Set[str]) -> Query:
    from sqlglot import exp

    named = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    tables = frozenset(name for table in tree.find_all(exp.Table) if (name := _table(table)) and name not in named)
    temporal = tuple(_temporal_joins(tree))
    tree = _without_static(tree, static - named)
    aggregation = _aggregation(tree)
    return Query(
        tables=tables,
        aggregation=aggregation,
        state_joins=tuple(_state_joins(tree)),
        temporal_joins=temporal,
        unsupported=tuple(_unsupported(tree)),
        modes=_modes(tree) if aggregation is None else frozenset({"append"}),
    )


def _table(table: exp.Table) -> str | None:
    """Return a table's name; None for a table function."""
    from sqlglot import exp

    if not isinstance(table.this, exp.Identifier):
        return None
    return ".".join(part.name for part in table.parts).lower()


def _aggregation(tree: exp.Query) -> str | None:
    """Return the keywords that make Spark aggregate a stream; aggregates over rows of the query itself do not count."""
    from sqlglot import exp

    for query in tree.find_all(exp.Query):
        if not _reads_tables(query):
            continue
        if isinstance(query, exp.Union) and query.args.get("distinct"):
            return "UNION (without ALL)"
        if not isinstance(query, exp.Select):
            continue
        if query.args.get("group"):
            return "GROUP BY"
        if query.args.get("distinct"):
            return "DISTINCT"
        if (call := aggregate_of(query)) is not None:
            return f"{call.sql_name()}()"
    return None


def aggregate_of(query: exp.Select) -> exp.AggFunc | None:
    """Return an aggregate of the query itself that turns several rows into one."""
    from sqlglot import exp

    for call in query.find_all(exp.AggFunc):
        in_window = isinstance(call.find_ancestor(exp.Window, exp.Select), exp.Window)
        if not in_window and call.find_ancestor(exp.Select) is query:
            return call
    return None


def _reads_tables(tree: exp.Expr) -> bool:
    from sqlglot import exp

    return any(_table(table) for table in tree.find_all(exp.Table))


def _state_joins(tree: exp.Query) -> list[Join]:
    from sqlglot import exp

    joins = []
    for select in tree.find_all(exp.Select):
        first = select.args.get("from_")
        sides = [first.this] if first is not None else []
        for join in select.args.get("joins") or []:
            sides.append(join.this)
            words = _words(join)
            needs_watermark = words in (["LEFT"], ["RIGHT"], ["FULL"], ["LEFT", "SEMI"], ["SEMI"])
            if needs_watermark and not _is_temporal(join) and all(_is_stream(each) for each in sides):
                inputs = frozenset(str(_table(each)) for each in sides)
                joins.append(Join(" ".join([*words, "JOIN"]), inputs))
    return joins


def _words(join: exp.Join) -> list[str]:
    return [word for word in (str(join.side).upper(), str(join.kind).upper()) if word and word != "OUTER"]


def _is_temporal(join: exp.Join) -> bool:
    return join.this.args.get("version") is not None


def _temporal_joins(tree: exp.Query) -> Iterator[Join]:
    from sqlglot import exp

    for join in tree.find_all(exp.Join):
        if _is_temporal(join) and (name := _table(join.this)) is not None:
            yield Join(" ".join([*_words(join), "JOIN"]), frozenset({name}))


def _modes(tree: exp.Query) -> frozenset[OutputMode]:
    """Return the output modes in which a query without aggregation yields the same rows.

    docs/decisions/fuse-what-one-query-can-hold.md lists what Spark 4.3 refuses outside of append mode, and what it
    accepts but computes differently.
    """
    from sqlglot import exp

    modes: set[OutputMode] = {"append", "update", "complete"}
    joins = [join for join in tree.find_all(exp.Join) if _reads_tables(join.this)]
    if joins:
        modes.discard("complete")
    if any(_is_temporal(join) for join in joins):
        modes.discard("update")
    if any(query.args.get("limit") for query in tree.find_all(exp.Query)):
        modes.discard("update")
    if any(join.side or join.kind not in ("", "INNER", "CROSS") for join in joins):
        modes.discard("update")
    return frozenset(modes)


def _unsupported(tree: exp.Query) -> list[str]:
    from sqlglot import exp

    found = ["ORDER BY" for query in tree.find_all(exp.Query) if query.args.get("order")]
    found += ["a window function (OVER)" for _ in tree.find_all(exp.Window)]
    found += [each.key.upper() for each in tree.find_all(exp.Except, exp.Intersect)]
    found += ["LEFT ANTI JOIN" for join in tree.find_all(exp.Join) if join.kind == "ANTI" and _is_stream(join.this)]
    found += ["an aggregation of DISTINCT values" for each in tree.find_all(exp.Distinct) if _in_aggregate(each)]
    for each in tree.find_all(exp.Query):
        in_expression = isinstance(each.parent, exp.In | exp.Exists) or (
            isinstance(each.parent, exp.Subquery)
            and isinstance(each.parent.parent, exp.Select | exp.Binary | exp.Alias)
        )
        if in_expression and _reads_tables(each):
            found.append("a subquery in an expression")
    return list(dict.fromkeys(found))


def _is_stream(side: exp.Expr) -> bool:
    from sqlglot import exp

    return isinstance(side, exp.Table) and _table(side) is not None


def _in_aggregate(distinct: exp.Distinct) -> bool:
    from sqlglot import exp

    return isinstance(distinct.parent, exp.AggFunc)
