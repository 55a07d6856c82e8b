"""Analyses an element of a source's `columns` without Spark: its name, its type, and whether it works row by row."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from streamjob.job.model.problem import Refused
from streamjob.job.query.sql import NotAQuery, Unread, aggregate_of, parse

_NEAR = re.compile(r" near (.*) \(line \d+, column \d+\)$", re.DOTALL)
"""The end of a message about a whole query, whose positions the author of an expression does not know."""

SparkParser = Callable[[str], str | None]


class NotAnExpression(Refused):
    """A text is not one expression over a row."""


@dataclass(frozen=True, slots=True)
class Expression:
    """The properties of an expression, as far as they are known.

    Args:
        name: the column that it computes; None if it computes several, or if only Spark knows.
        kind: the type of that column, in lower case; None if only Spark knows.
        copies: the column of the source that it is, under the same name or another one.
        takes_all: it is `*`.
        fields_of: the name before `.*`, if it is `name.*`.
    """

    name: str | None = None
    kind: str | None = None
    copies: str | None = None
    takes_all: bool = False
    fields_of: str | None = None


def read_expression(text: str, spark_parser: SparkParser | None = None) -> Expression:
    """Analyse an expression.

    Args:
        text: an expression of Spark's SQL, perhaps with `AS name`.
        spark_parser: asked about a query with it if sqlglot cannot read it; returns why Spark cannot, or None.

    Raises:
        NotAnExpression: it does not parse, is several expressions, or needs more than one row.
    """
    from sqlglot import exp

    query = f"SELECT {text}"
    try:
        tree = parse(query)
    except Unread as error:
        reason = str(error) if spark_parser is None else spark_parser(query)
        if reason is None:
            return Expression()
        raise _unparsed(text, reason) from None
    except NotAQuery as error:
        raise _unparsed(text, str(error)) from None
    if not isinstance(tree, exp.Select) or any(value for key, value in tree.args.items() if key != "expressions"):
        raise NotAnExpression(f"{text!r}, which is more than an expression", "write only the part after SELECT")
    if len(tree.expressions) > 1:
        raise NotAnExpression(f"{text!r}, which is several expressions", "make each an element of the list")
    (found,) = tree.expressions
    if (needs := _other_rows(tree)) is not None:
        fix = "compute it in an operator, which may keep state"
        raise NotAnExpression(f"{text!r}, and {needs} needs other rows", fix)
    return _described(found)


def columns_of(expressions: Iterable[Expression], known: Mapping[str, str] | None) -> dict[str, str | None] | None:
    """Return the columns that expressions compute, with their types where these are known.

    Args:
        expressions: in order.
        known: the columns of the source's format, with their types; None if they are not known.

    Returns:
        None if only Spark knows the columns.
    """
    columns: dict[str, str | None] = {}
    for each in expressions:
        if each.takes_all and known is not None:
            columns.update(known)
        elif each.name is None:
            return None
        else:
            kinds = {name.lower(): kind for name, kind in (known or {}).items()}
            columns[each.name] = each.kind if each.copies is None else kinds.get(each.copies.lower())
    return columns


def _unparsed(text: str, reason: str) -> NotAnExpression:
    near = _NEAR.search(reason)
    why = f" near {near[1]}" if near else f": {reason}"
    return NotAnExpression(f"{text!r}, which does not parse{why}", "write an expression, perhaps with AS name")


def _other_rows(tree: object) -> str | None:
    from sqlglot import exp

    assert isinstance(tree, exp.Select)
    if tree.find(exp.Window) is not None:
        return "a window function (OVER)"
    if (call := aggregate_of(tree)) is not None:
        return f"{call.sql_name()}()"
    return "a subquery" if tree.find(exp.Subquery) is not None else None


def _described(found: object) -> Expression:
    from sqlglot import exp

    assert isinstance(found, exp.Expression)
    plain = found.unalias()
    if isinstance(found, exp.Star) and not any(found.args.values()):
        return Expression(takes_all=True)
    if isinstance(found, exp.Column) and isinstance(found.this, exp.Star) and not found.db:
        return Expression(fields_of=found.table)
    if found.is_star or not isinstance(found, exp.Alias | exp.Column):
        return Expression()
    if isinstance(plain, exp.Column) and not plain.table:
        return Expression(found.alias_or_name, copies=plain.name)
    if isinstance(plain, exp.Cast | exp.TryCast):
        return Expression(found.alias_or_name, _kind(plain.to))
    return Expression(found.alias_or_name)


def _kind(type_of: object) -> str:
    from sqlglot import exp

    assert isinstance(type_of, exp.DataType)
    return type_of.sql(dialect="spark").lower().partition("<")[0].partition("(")[0]
