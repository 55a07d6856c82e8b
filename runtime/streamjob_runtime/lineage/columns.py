"""Which columns of a job's datasets the columns of its sinks come from, as far as its SQL says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.lineage import Node, lineage
from sqlglot.optimizer.qualify import qualify

from streamjob.job.connectors.datasets import Dataset
from streamjob.job.model.join_spec import JoinSpec
from streamjob.job.model.spec import JobSpec, OperatorSpec, SourceSpec, TableSpec
from streamjob.job.planning.plan import in_order
from streamjob.job.query import ddl
from streamjob.job.query.sql import NotAQuery, Unread, parse

_DIALECT = "spark"
_INDIRECT = "__streamjob_indirect_"
_KAFKA = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")

Subtype = Literal["IDENTITY", "TRANSFORMATION", "AGGREGATION", "FILTER", "GROUP_BY", "JOIN"]


@dataclass(frozen=True, order=True, slots=True)
class Field:
    """A column of a dataset, and the way in which it is used."""

    dataset: Dataset
    column: str
    subtype: Subtype = "IDENTITY"


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a source's or operator's rows.

    Args:
        fields: the fields that each column comes from; None if nobody can tell.
        used: fields that decide which rows there are.
    """

    fields: Mapping[str, frozenset[Field] | None]
    used: frozenset[Field] = frozenset()


def columns_of(spec: JobSpec, datasets: Mapping[str, tuple[Dataset, ...]]) -> dict[str, Columns]:
    """Return the columns of each source, table and operator whose columns are known, by its name.

    Args:
        datasets: what its sources and tables read, by their names.
    """
    known: dict[str, Columns] = {}
    parts: tuple[SourceSpec | TableSpec, ...] = (*spec.sources, *spec.tables)
    for part in parts:
        if (columns := _of_source(part, datasets[part.name])) is not None:
            known[part.name] = columns
    for operator in in_order(spec):
        if (found := _of_operator(operator, known, spec)) is not None:
            known[operator.name] = found
    return known


def _of_source(part: SourceSpec | TableSpec, datasets: tuple[Dataset, ...]) -> Columns | None:
    names = _declared(part)
    if isinstance(part, SourceSpec) and (part.python is not None or part.changes is not None):
        return None
    own = (
        None if names is None else Columns({name: frozenset(Field(each, name) for each in datasets) for name in names})
    )
    if not isinstance(part, SourceSpec) or part.columns is None:
        return own
    query = f"SELECT {', '.join(part.columns)} FROM {exp.to_identifier(part.name, quoted=True).sql(_DIALECT)}"
    if own is None:
        # The expressions name the columns that they need.
        return _of_query(query, {}, {part.name: datasets})
    return _of_query(query, {part.name: own}, {})


def _declared(part: SourceSpec | TableSpec) -> list[str] | None:
    if part.schema_ddl is not None:
        try:
            return list(ddl.columns(part.schema_ddl))
        except ddl.NotASchema:
            return None
    return list(_KAFKA) if part.format.lower() == "kafka" else None


def _of_operator(operator: OperatorSpec, known: Mapping[str, Columns], spec: JobSpec) -> Columns | None:
    names = [each.name for each in operator.inputs if not each.feedback]
    if operator.sql is not None:
        inputs = {each: known[each] for each in [*names, *(table.name for table in spec.tables)] if each in known}
        return _of_query(operator.sql, inputs, {})
    if operator.lookup is not None:
        return _joined(operator.lookup, known.get(names[0]), known.get(operator.lookup.table))
    if operator.temporal_join is not None:
        return _joined(operator.temporal_join, known.get(names[0]), known.get(names[1]) if len(names) > 1 else None)
    return None


def _joined(join: JoinSpec, rows: Columns | None, other: Columns | None) -> Columns | None:
    if rows is None:
        return None
    fields = dict(rows.fields)
    for column, name in join.added_columns():
        fields[name] = None if other is None else other.fields.get(column)
    used = set(rows.used)
    for column, others in join.key_columns():
        for side, each in ((rows, column), (other, others)):
            found = None if side is None else side.fields.get(each)
            used |= {Field(field.dataset, field.column, "JOIN") for field in found or ()}
    return Columns(fields, frozenset(used | (other.used if other else frozenset())))


def _of_query(query: str, inputs: Mapping[str, Columns], unknown: Mapping[str, tuple[Dataset, ...]]) -> Columns | None:
    """Return the columns of a query; None if it cannot be told what they are.

    Args:
        inputs: its inputs whose columns are known.
        unknown: the datasets of an input whose columns are not declared.
    """
    schema: dict[str, object] = {name.lower(): dict.fromkeys(each.fields, "string") for name, each in inputs.items()}
    try:
        parsed = parse(query)
        written = parsed.named_selects
        qualified = qualify(
            parsed,
            dialect=_DIALECT,
            schema=schema,
            validate_qualify_columns=False,
            quote_identifiers=False,
        )
        outputs = qualified.named_selects
        if not outputs or "*" in outputs:
            return None
        indirect = _with_indirect(qualified)
        found = lineage(None, qualified, schema=schema, dialect=_DIALECT, trim_selects=False)
    except (NotAQuery, Unread, SqlglotError, RecursionError, KeyError, ValueError, AttributeError):
        # A query that sqlglot cannot follow has no lineage by columns; Spark itself has checked the query.
        return None
    by_name = {name.lower(): node for name, node in found.items()}
    fields: dict[str, frozenset[Field] | None] = {}
    used: set[Field] = {field for each in inputs.values() for field in each.used}
    # Names in small letters are sqlglot's way to compare them.
    spelled = written if len(written) == len(outputs) and "*" not in written else outputs
    for name, shown in zip(outputs, spelled, strict=True):
        node = by_name.get(name.lower())
        fields[shown or name] = None if node is None else _leaves(node, inputs, unknown)
    for name, subtype in indirect.items():
        node = by_name.get(name)
        leaves = None if node is None else _leaves(node, inputs, unknown)
        used |= {Field(each.dataset, each.column, subtype) for each in leaves or ()}
    return Columns(fields, frozenset(used))


def _with_indirect(query: exp.Query) -> dict[str, Subtype]:
    """Add the columns by which a query chooses, groups and joins rows to what it selects; return their names."""
    found: dict[str, Subtype] = {}
    if not isinstance(query, exp.Select):
        return found
    clauses: list[tuple[exp.Expr | None, Subtype]] = [
        (query.args.get("where"), "FILTER"),
        (query.args.get("having"), "FILTER"),
        (query.args.get("group"), "GROUP_BY"),
        *((join.args.get("on"), "JOIN") for join in query.args.get("joins") or ()),
    ]
    added: list[exp.Expr] = []
    for clause, subtype in clauses:
        for column in _columns_in(clause):
            name = f"{_INDIRECT}{len(found)}"
            found[name] = subtype
            added.append(exp.alias_(column.copy(), name))
    query.set("expressions", [*query.expressions, *added])
    return found


def _columns_in(clause: exp.Expr | None) -> Iterable[exp.Column]:
    return () if clause is None else [each for each in clause.find_all(exp.Column) if each.table]


def _leaves(
    node: Node, inputs: Mapping[str, Columns], unknown: Mapping[str, tuple[Dataset, ...]]
) -> frozenset[Field] | None:
    """Return the fields that a column comes from; None if one of its inputs has unknown columns."""
    by_name = {name.lower(): each for name, each in inputs.items()}
    without = {name.lower(): each for name, each in unknown.items()}
    found: set[Field] = set()
    waiting: list[tuple[Node, Subtype]] = [(node, "IDENTITY")]
    while waiting:
        current, subtype = waiting.pop()
        if isinstance(current.expression, exp.Table) and not current.downstream:
            table, column = current.expression.name.lower(), current.name.rpartition(".")[2].strip('`"')
            if table in without:
                found |= {Field(each, column, subtype) for each in without[table]}
                continue
            known = by_name.get(table)
            names = {} if known is None else {name.lower(): each for name, each in known.fields.items()}
            fields = names.get(column.lower())
            if fields is None:
                return None
            found |= {Field(each.dataset, each.column, _stronger(each.subtype, subtype)) for each in fields}
        else:
            kind = _stronger(subtype, _kind_of(current.expression))
            waiting += [(each, kind) for each in current.downstream]
    return frozenset(found)


_STRENGTH: tuple[Subtype, ...] = ("IDENTITY", "TRANSFORMATION", "AGGREGATION")


def _stronger(one: Subtype, other: Subtype) -> Subtype:
    return max(one, other, key=_STRENGTH.index)


def _kind_of(expression: exp.Expr) -> Subtype:
    """Return how a selected expression uses the columns in it."""
    plain = expression.unalias()
    if isinstance(plain, exp.Column | exp.Table | exp.Query):
        return "IDENTITY"
    return "AGGREGATION" if plain.find(exp.AggFunc) is not None else "TRANSFORMATION"
