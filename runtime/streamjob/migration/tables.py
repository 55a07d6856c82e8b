"""The tables by which an author's queries see the state of an operator, and return the new one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from streamjob.job.model.spec import STATE
from streamjob.job.query.quoting import as_text, quoted
from streamjob.migration.by_name import fields
from streamjob.migration.state import EQUALS, Column, Family, KeptState, NotCarried, columns_in_words
from streamjob.migration.variables import COUNTS, WITH_VARIABLES, Variable, is_of_timers, variables_of

_TIMERS, _EXPIRES, _POSITION = "timers", "expires", "position"
_DUMMY = "__dummy__"
"""Spark's name of a column without content, where a store has keys only."""
_NOTHING = "CAST(NULL AS int)"


@dataclass(frozen=True, slots=True)
class TableColumn(Column):
    """A column of a table, and how it is read.

    `read` is SQL over `key.k0`, …, `value.v0`, … of its first column family, and `place`, which numbers the rows as
    they are stored.
    """

    read: str

    @property
    def quoted(self) -> str:
        """Its name in a query."""
        return quoted(self.name)


@dataclass(frozen=True, slots=True)
class Written:
    """How the rows of a column family follow from those of a table, by SQL over its columns.

    Args:
        key: an expression for each column of the key.
        value: an expression for each column of the value.
        by: the columns by which rows are put together; empty if each row of the table is one of the family.
    """

    target: Family
    key: tuple[str, ...]
    value: tuple[str, ...]
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Args:
        families: the column families that it stands for; its rows are read from the first one.
        order: the columns that say in which order rows are written, if that matters: those of the key come first.
    """

    columns: tuple[TableColumn, ...]
    families: tuple[Written, ...]
    order: tuple[str, ...] = ()


def tables_of(state: KeptState) -> Mapping[str, Table]:
    """Return an operator's state as tables by name: `state`, or one for each variable and `timers`, or sides of a join.

    Columns of one name get numbers: `max`, `max_2`. A session's key is left out, since its value has the same columns.

    Raises:
        NotCarried: a query cannot return the state.
    """
    if state.operator == WITH_VARIABLES:
        named = [(each.name, _of_variable(each)) for each in variables_of(state)]
        if timers := [each for each in state.families if is_of_timers(each)]:
            named.append((_TIMERS, _of_timers(timers)))
        found: dict[str, Table] = {}
        for name, table in named:
            found[_free(name, found)] = table
        return found
    if state.form is not None and len({each.store for each in state.families}) == 4:
        # Only a join has as many stores.
        return {f"{side}_side": _of_side(state, number, side) for number, side in enumerate(("left", "right"))}
    if len(state.families) != 1:
        raise NotCarried("its state is not one table, so that a query cannot return it")
    return {STATE: (_of_sessions if _is_of_sessions(state) else _of_one)(state)}


def columns_of(state: KeptState, family: Family) -> tuple[TableColumn, ...]:
    """Return the columns of one of the column families of an operator's state as Spark keeps them, by such names."""
    keys = [] if _is_of_sessions(state) else enumerate(family.key)
    value = [each for each in enumerate(family.value) if each[1].name != _DUMMY]
    return _named([*_places("key.k", keys), *_places("value.v", value)])


def tables_in_words(tables: Mapping[str, Table]) -> str:
    """Return tables with their columns."""
    return ", ".join(f"{name} {columns_in_words(table.columns)}" for name, table in tables.items())


def _of_one(state: KeptState) -> Table:
    (family,) = state.families
    columns = columns_of(state, family)
    keys, values = _split(columns, len(family.key))
    return Table(columns, (Written(family, keys, values or (_NOTHING,)),))


def _of_sessions(state: KeptState) -> Table:
    (family,) = state.families
    columns = columns_of(state, family)
    names = [each.name for each in family.value]
    assert state.form is not None
    window = next(number for number, each in enumerate(state.form.keys) if each.window is not None)
    keys = [columns[names.index(each.name)].quoted for each in family.key[:-1]]
    key = (*keys, f"{columns[window].quoted}.start")
    return Table(columns, (Written(family, key, tuple(each.quoted for each in columns)),))


def _of_variable(variable: Variable) -> Table:
    own, keys, users = variable.own, [*_places("key.k", enumerate(variable.own.key))], []
    values = [*_places("value.v", enumerate(own.value))]
    if variable.is_map:
        keys, users = [*_inside("key.k0", own.key[0])], [*_inside("key.k1", own.key[1])]
    if variable.expires:
        values = [*_inside("value.v0", own.value[0])]
    more = [TableColumn(_EXPIRES, "timestamp", "timestamp_millis(value.v1)")] if variable.expires else []
    if own.many:
        place = "row_number() OVER (PARTITION BY key ORDER BY place) - 1"
        more.append(TableColumn(_POSITION, "bigint", f"CAST({place} AS bigint)"))
    columns = _named([*keys, *users, *values, *more])
    key, user, value, other = _split(columns, len(keys), len(users), len(values))
    found = [Written(own, (_struct(key), _struct(user)) if variable.is_map else key, value)]
    # Each element of a list has its own place, which also says that no key was put together from several.
    wrong = as_text(f"elements of {quoted(variable.name)} have the same position, or none")
    counted = f"IF(count(*) = count(DISTINCT {other[-1]}), count(*), raise_error({wrong}))" if own.many else "count(*)"
    found += [Written(each, key, (counted,), key) for prefix, each in variable.families.items() if prefix in COUNTS]
    return Table(columns, tuple(found), (*key, other[-1]) if own.many else ())


def _of_timers(families: Collection[Family]) -> Table:
    """Return the table of timers, which Spark keeps twice: by their keys and by their times."""
    by_key, by_time = sorted(families, key=lambda each: each.key[0].name != "key")
    time = TableColumn(_EXPIRES, "timestamp", "timestamp_millis(key.k1)")
    columns = _named([*_inside("key.k0", by_key.key[0]), time])
    key, (at,) = _split(columns, len(columns) - 1)
    parts = (_struct(key), _millis(at))
    return Table(columns, (Written(by_key, parts, (_NOTHING,)), Written(by_time, parts[::-1], (_NOTHING,))))


def _of_side(state: KeptState, number: int, side: str) -> Table:
    """Return the table of a side of a join, whose rows Spark keeps by key and index, beside their number by key."""
    families = {each.store: each for each in state.families}
    rows, counts = families[f"{side}-keyWithIndexToValue"], families[f"{side}-keyToNumValues"]
    columns = _named(_places("value.v", enumerate(rows.value)))
    assert state.form is not None
    on = state.form.parameters.get("on")
    equal = [str(each).split(EQUALS) for each in on] if isinstance(on, list) else []
    if [each.name for each in columns] != [each.name for each in rows.value] or {*map(len, equal)} != {2}:
        raise NotCarried(f"the keys of its {side} side do not follow from its rows, so that a query cannot return it")
    # The key follows from the row, so that it cannot be that of another one.
    key = tuple(f"CAST({each[number]} AS {column.type})" for each, column in zip(equal, counts.key, strict=True))
    index = f"CAST(row_number() OVER (PARTITION BY {', '.join(key)} ORDER BY {key[0]}) - 1 AS bigint)"
    value = tuple(each.quoted for each in columns)
    return Table(columns, (Written(rows, (*key, index), value), Written(counts, key, ("count(*)",), key)))


def _places(prefix: str, columns: Iterable[tuple[int, Column]]) -> Iterator[TableColumn]:
    return (TableColumn(each.name, each.type, f"{prefix}{number}") for number, each in columns)


def _inside(place: str, column: Column) -> Iterator[TableColumn]:
    """Yield the columns of a struct."""
    return (TableColumn(each.name, each.type, f"{place}.{quoted(each.name)}") for each in fields(column.type) or ())


def _named(columns: Iterable[TableColumn]) -> tuple[TableColumn, ...]:
    found: dict[str, TableColumn] = {}
    for each in columns:
        name = _free(each.name, found)
        found[name] = TableColumn(name, each.type, each.read)
    return tuple(found.values())


def _free(name: str, taken: Collection[str]) -> str:
    """Return a name with the first number that makes it another one than those that are taken; SQL ignores case."""
    lower = {each.lower() for each in taken}
    names = (name, *(f"{name}_{number}" for number in range(2, len(lower) + 3)))
    return next(each for each in names if each.lower() not in lower)


def _split(columns: Collection[TableColumn], *widths: int) -> Iterator[tuple[str, ...]]:
    """Yield the names of columns in groups of some widths, and those of the rest."""
    names = [each.quoted for each in columns]
    for width in widths:
        yield tuple(names[:width])
        del names[:width]
    yield tuple(names)


def _struct(columns: Iterable[str]) -> str:
    return f"struct({', '.join(columns)})"


def _millis(column: str) -> str:
    # Spark would read NULL as a time long ago.
    return f"coalesce(unix_millis({column}), raise_error('{_EXPIRES} cannot be NULL'))"


def _is_of_sessions(state: KeptState) -> bool:
    return state.form is not None and state.form.kind == "sessions"
