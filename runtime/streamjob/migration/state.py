"""The state of a stateful operator: its form, and the tables of rows in which Spark stores it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field

from streamjob.ids import OperatorUid
from streamjob.job.model.spec import STATE, JobSpec
from streamjob.snapshot.state_form import KeyForm, StateForm

EQUALS = " = "
"""What stands between the two expressions that a join says are equal, in its form."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a key or a value; `type` is the type's text in Spark's catalogs, such as `bigint`."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Family:
    """A column family of a state store: a table of keys with their values.

    Args:
        store: the name of the store; `default` for operators with one store.
        name: the name of the family; `default` for operators with one family.
        many: whether a key has several values, in an order.
    """

    store: str
    name: str
    key: tuple[Column, ...]
    value: tuple[Column, ...]
    many: bool = False


@dataclass(frozen=True, slots=True)
class KeptState:
    """The state of an operator.

    Args:
        operator: Spark's name for the operator, such as `stateStoreSave`.
        form: how it keeps the state; None in snapshots of older versions.
        families: all its tables.
    """

    operator: str
    form: StateForm | None
    families: tuple[Family, ...]

    @property
    def fingerprint(self) -> str:
        """A short name of the form and the tables, by which a migration says what it starts from."""
        families = [
            [each.store, each.name, *([[one.name, one.type] for one in columns] for columns in (each.key, each.value))]
            for each in self.families
        ]
        form = None if self.form is None else self.form.model_dump(mode="json")
        text = json.dumps([self.operator, form, families], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:8]


@dataclass(frozen=True, slots=True)
class Wishes:
    """The settings of a job for the migration of an operator's state.

    Args:
        renames: the present name of a column by its former one.
        sql: for a table of the new state the query over the former tables that returns it; none to infer all.
        of: the fingerprint of the state that the query is for; None for any.
    """

    renames: Mapping[str, str] = field(default_factory=dict)
    sql: Mapping[str, str] = field(default_factory=dict)
    of: str | None = None


def wishes_of(spec: JobSpec, uids: Set[OperatorUid]) -> Wishes:
    """Return what a job says about the state of one of some operators."""
    operators = [each for each in spec.operators if each.uid in uids]
    renames = {former: present for each in operators for former, present in each.renames.items()}
    given = next((spec.migrate[each.uid] for each in operators if each.uid in spec.migrate), None)
    return Wishes(renames) if given is None else Wishes(renames, given.sql or {}, given.from_)


@dataclass(frozen=True, slots=True)
class FamilyMigration:
    """How the rows of a table follow from those of a former one.

    Expressions are SQL over `key.k0`, `key.k1`, … and `value.v0`, `value.v1`, … of the former table, by place, and over
    `initial.i0`, …, the buffers of the new operator's aggregates before any input.

    Args:
        target: the new table.
        source: the former table; None if the new one begins without rows.
        key: an expression for each column of the new key.
        value: an expression for each column of the new value.
        merged: for rows whose new keys are equal, an aggregate over `v0`, `v1`, … of the new values for each column;
            empty if keys stay different.
    """

    target: Family
    source: Family | None
    key: tuple[str, ...] = ()
    value: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Migration:
    """How the state of an operator follows from its former state.

    Args:
        families: one for each table of the new state.
        said: what happens, a sentence each.
        gaps: what is missing or presumed afterwards, a sentence each; none if results are those of the new query over
            all input.
        sql: the author's queries by the tables that they return; of these, `families` has no expressions.
    """

    families: tuple[FamilyMigration, ...]
    said: tuple[str, ...]
    gaps: tuple[str, ...] = ()
    sql: Mapping[str, str] = field(default_factory=dict)

    @property
    def in_words(self) -> str:
        """What happens, and what is missing afterwards."""
        return "; ".join((*self.said, *self.gaps)) or "its columns get new names"

    @property
    def query(self) -> str | None:
        """The author's queries as one text, with the tables that they return if these are several; None without any."""
        named = [f"{name}: {each}" for name, each in self.sql.items()]
        return "\n".join(self.sql.values() if [*self.sql] == [STATE] else named) or None

    def keeps_places(self, store: str) -> bool:
        """Return whether each row of a store stays in its partition: then no rows need to be exchanged."""
        keys = [each.key for each in self.families if each.target.store == store and each.source is not None]
        stay = [key == tuple(f"key.k{number}" for number in range(len(key))) for key in keys]
        return stay == [True] and not self.sql and not any(each.merged for each in self.families)


class NotCarried(Exception):
    """State cannot follow from the former state; the text is the reason, without the operator's name."""


def columns_in_words(columns: Iterable[Column | KeyForm]) -> str:
    """Return columns as in a schema, in parentheses."""
    return f"({', '.join(f'{each.name} {each.type}' for each in columns)})"
