"""The queries whose state is carried over, made of parts that a change replaces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from tests import jobs
from tests.integration.migrations.events import DELAY, KEYS, TYPES, VALUES

PYTHON = "tests.integration.migrations.python_state"
OUT = "out"
"""The operator whose query changes."""


class Family(StrEnum):
    """What a query publishes of all that it finds."""

    CLOSING = "each group once it is closed"
    UPDATING = "a group whenever a row comes"
    ONCE = "each row once"


@dataclass(frozen=True)
class Query:
    """A query with state.

    Args:
        family: what it publishes.
        body: its SQL, in which `{name}` is a column; without a space, the name of a function of `python_state`.
        like: SQL with the same result as a batch, for a function.
        names: what columns of the input are called, if not by their own names.
        types: what they are, if not of their own types.
        aggregates: the columns of the result that are computed, by name.
        keys: the columns of the keys.
        gaps: the computed columns that miss what came before the change.
        delay: of the watermark, in seconds.
        inputs: the sources.
        fields: more fields of the operator.
        late: whether late rows count.
        migrate: the author's query for the state, if it needs one.
    """

    family: Family
    body: str
    like: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    aggregates: Mapping[str, str] = field(default_factory=dict)
    keys: tuple[str, ...] = KEYS
    gaps: tuple[str, ...] = ()
    delay: int = DELAY
    inputs: tuple[str, ...] = ("events",)
    fields: Mapping[str, Any] = field(default_factory=dict)
    late: bool = False
    migrate: str = ""

    def renamed(self, column: str, to: str) -> Query:
        """Return it with another name of a column."""
        return replace(self, names={**self.names, column: to})

    def widened(self, column: str, to: str) -> Query:
        """Return it with another type of a column."""
        return replace(self, types={**self.types, column: to})

    def with_aggregates(self, aggregates: Mapping[str, str], *gaps: str) -> Query:
        """Return it with other aggregates, of which some begin empty."""
        return replace(self, aggregates=aggregates, gaps=gaps)

    def without(self, *aggregates: str, **others: str) -> Query:
        """Return it without some aggregates, with others at their place."""
        found: dict[str, str] = {}
        for name, text in self.aggregates.items():
            found |= {name: text} if name not in aggregates else others
        return replace(self, aggregates=found)

    def operators(self) -> list[dict[str, Any]]:
        """Return the operators of its job; the last one makes texts of its rows."""
        made = [jobs.sql(f"typed_{name}", name, self._typed(name)) for name in self.inputs]
        inputs = [each["name"] for each in made]
        if " " in self.body:
            fields = {"outputMode": "update", **self.fields} if self.updates else self.fields
            return [*made, jobs.sql(OUT, inputs, SHOWN.format(f"({self._filled(self.body)})"), **fields)]
        function = jobs.python(OUT, inputs, f"{PYTHON}:{self.body}", **self.fields)
        return [*made, function, jobs.sql("shown", OUT, SHOWN.format(OUT))]

    @property
    def updates(self) -> bool:
        """Whether its output mode is `update`."""
        return self.family is Family.UPDATING and " " in self.body

    def batch(self) -> Mapping[str, str]:
        """Return the views by which Spark makes its rows as a batch; the last one has them."""
        views = {f"typed_{name}": self._typed(name) for name in self.inputs}
        return {**views, OUT: self._filled(self.like or self.body), "shown": SHOWN.format(OUT)}

    def of_no_rows(self) -> str:
        """Return the query of its aggregates over nothing."""
        return self._filled("SELECT {aggregates} FROM typed_events WHERE false")

    def identity(self) -> tuple[str, ...]:
        """Return the columns of the result that are no aggregates."""
        return tuple(self.names.get(each, each) for each in self.keys)

    def _typed(self, name: str) -> str:
        columns = ", ".join(
            f"CAST({each} AS {self.types.get(each, TYPES[each])}) AS {self.names.get(each, each)}"
            for each in (*KEYS, *VALUES)
        )
        return f"SELECT id, at, {columns} FROM {name} WHERE id >= 0"

    def _filled(self, text: str) -> str:
        names = {each: self.names.get(each, each) for each in (*KEYS, *VALUES)}
        keys = ", ".join(names.get(each, each) for each in self.keys)
        aggregates = ", ".join(f"{text.format(**names)} AS {name}" for name, text in self.aggregates.items())
        return text.format(**names, keys=keys, aggregates=aggregates)


_DISTINCT = "SELECT DISTINCT id, at, {k}, {i}, {f}, {d}, {day} FROM typed_events"
SHOWN = "SELECT to_json(struct(*), map('ignoreNullFields', 'false')) AS row FROM {}"
_AGGREGATES = {
    "n": "count(*)",
    "high": "max({v})",
    "wide": "max({x})",
    "largest": "max({m})",
    "latest": "max({w})",
    "s": "sum({v})",
    "c": "count({v})",
    "mean": "avg({x})",
}
_TOP = {"top": "max_by({v}, id, 3)", "n": "count(*)", "wide": "max({x})", "best": "max_by({w}, id)"}


def windows(size: str, aggregates: Mapping[str, str]) -> Query:
    """Return a query of windows."""
    body = (
        "SELECT unix_micros(window.end) AS ended, {keys}, {aggregates} FROM typed_events "
        f"GROUP BY window(at, '{size}'), {{keys}}"
    )
    return Query(Family.CLOSING, body, aggregates=aggregates)


def sessions(gap: str) -> Query:
    """Return a query of sessions."""
    body = (
        "SELECT unix_micros(session_window.end) AS ended, {keys}, {aggregates} FROM typed_events "
        f"GROUP BY session_window(at, '{gap}'), {{keys}}"
    )
    return Query(Family.CLOSING, body, aggregates=_AGGREGATES)


def join(kind: str = "INNER", before: int = 10, after: int = 10, more: str = "") -> Query:
    """Return a join of two streams within some seconds."""
    equal = " AND ".join(f"l.{{{each}}} = r.{{{each}}}" for each in KEYS)
    body = (
        "SELECT l.id, r.id AS other, l.{k}, l.{i}, l.{f}, l.{d}, l.{day}, l.{v}, r.{x}, l.{m}, r.{w}" + more + " "
        f"FROM typed_events l {kind} JOIN typed_others r ON {equal} "
        f"AND r.at BETWEEN l.at - INTERVAL {before} SECONDS AND l.at + INTERVAL {after} SECONDS"
    )
    return Query(Family.ONCE, body, inputs=("events", "others"), keys=("id", "other"))


def python(function: str, like: str = "count(*) AS n, sum(v) AS total", **fields: Any) -> Query:
    """Return a function with state of its own, which counts by key."""
    usual: dict[str, Any] = {"keys": ("k",), "late": True}
    return Query(
        Family.UPDATING, function, like=f"SELECT {{k}}, {like} FROM typed_events GROUP BY {{k}}", **{**usual, **fields}
    )


COUNTED = "count(*) AS n, sum(v) AS total, count(*) AS listed, sum(v) AS mapped"
"""What a processor counts in its variables."""
BASES: Mapping[str, Query] = {
    "window": windows("1 minute", _AGGREGATES),
    "session": sessions("30 seconds"),
    "grouped without window": Query(
        Family.UPDATING,
        "SELECT {keys}, {aggregates} FROM typed_events GROUP BY {keys}",
        aggregates=_AGGREGATES,
        late=True,
    ),
    "`max_by` in a window": windows("1 minute", _TOP),
    "`dropDuplicates`": Query(Family.ONCE, "duplicates", like=_DISTINCT, keys=("id",)),
    "`dropDuplicatesWithinWatermark`": Query(Family.ONCE, "within_watermark", like=_DISTINCT, keys=("id",)),
    "stream-stream join": join(),
    "outer join": join("LEFT OUTER"),
    "`applyInPandasWithState`": python("pandas_counts"),
    "`transformWithState`": python("processor_counts", COUNTED),
}
