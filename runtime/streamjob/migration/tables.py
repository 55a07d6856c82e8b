"""The table by which an author's query sees the state of an operator, and returns the new one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from streamjob.migration.state import Column, Family, KeptState, NotCarried

STATE = "state"
"""The name of the table."""

_DUMMY = "__dummy__"
"""Spark's name of a column without content, where a store has keys only."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of the table: its name there, its type, and its place: `key.k0` or `value.v0`."""

    name: str
    type: str
    place: str

    @property
    def quoted(self) -> str:
        """Its name in a query."""
        return f"`{self.name.replace('`', '``')}`"


def table_of(state: KeptState) -> tuple[TableColumn, ...]:
    """Return the columns of an operator's state as a table: those of keys, then those of values.

    Columns of one name get numbers: `max`, `max_2`. A session's key is left out, since its value has the same columns.

    Raises:
        NotCarried: the state is not one table.
    """
    if len(state.families) != 1:
        raise NotCarried("its state is not one table, so that a query cannot return it")
    return columns_of(state, state.families[0])


def columns_of(state: KeptState, family: Family) -> tuple[TableColumn, ...]:
    """Return the columns of one of the tables of an operator's state, named as in `table_of`."""
    found: list[TableColumn] = []
    for place, column in _places(state, family):
        taken = {each.name.lower() for each in found}
        names = (column.name, *(f"{column.name}_{number}" for number in range(2, len(found) + 3)))
        found.append(TableColumn(next(each for each in names if each.lower() not in taken), column.type, place))
    return tuple(found)


def key_of_table(state: KeptState) -> tuple[str, ...]:
    """Return the places of the columns that make up a key of the table; for sessions as places of values."""
    family = state.families[0]
    if not _is_of_sessions(state):
        return tuple(f"key.k{number}" for number in range(len(family.key)))
    names = [each.name for each in family.value]
    places = [f"value.v{names.index(each.name)}" for each in family.key[:-1]]
    assert state.form is not None
    window = next(number for number, each in enumerate(state.form.keys) if each.window is not None)
    return (*places, f"value.v{window}.start")


def _places(state: KeptState, family: Family) -> Iterator[tuple[str, Column]]:
    if not _is_of_sessions(state):
        for number, column in enumerate(family.key):
            yield f"key.k{number}", column
    for number, column in enumerate(family.value):
        if column.name != _DUMMY:
            yield f"value.v{number}", column


def _is_of_sessions(state: KeptState) -> bool:
    return state.form is not None and state.form.kind == "sessions"
