"""Each change of each kind of query, and what is to become of the state: one declaration for the tests and the docs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from tests.integration.migrations.events import KEYS, SOME_CLOSED, STATES, State
from tests.integration.migrations.queries import BASES, COUNTED, Query, join, python, sessions, windows


class Outcome(StrEnum):
    """What becomes of the state of an operator whose query changes."""

    RESTORED = "as it was"
    CARRIED = "carried over"
    GAP = "carried over, with a gap"
    LINE = "carried over, with a line from you"
    QUERY = "carried over, with a query from you"
    REFUSED = "refused"


@dataclass(frozen=True)
class Cell:
    """A change of a query.

    Args:
        operator: the kind of query.
        change: what changes.
        then: the query before.
        now: the query behind it.
        outcome: what becomes of the state.
        only: the states in which it is tried, if not in all.
    """

    operator: str
    change: str
    then: Query
    now: Query
    outcome: Outcome
    only: tuple[str, ...] = ()

    @property
    def today(self) -> Outcome:
        """What becomes of the state as long as streamjob does not know better."""
        return Outcome.REFUSED if self.change in NOT_YET.get(self.operator, ()) else self.outcome

    def states(self) -> dict[str, State]:
        """Return the states in which it is tried, by name."""
        found = {**STATES, "some closed": SOME_CLOSED}
        return {name: found[name] for name in self.only or STATES}


_SMALL_SUM = "a sum: `DECIMAL` of at most 8 digits to a larger one"
NOT_YET: Mapping[str, Collection[str]] = {}
"""Changes that are refused and need not be, by kind of query."""

_WIDER = (
    ("`INT` to `BIGINT`", "i", "v", "BIGINT"),
    ("`FLOAT` to `DOUBLE`", "f", "x", "DOUBLE"),
    ("`DECIMAL` to a larger one", "d", "m", "DECIMAL(12,4)"),
    ("`DATE` to `TIMESTAMP`", "day", "w", "TIMESTAMP"),
)
_SQL = [name for name, query in BASES.items() if " " in query.body]
_AGGREGATING = [name for name, query in BASES.items() if query.aggregates]
_JOINS = ["stream-stream join", "outer join"]


def _keys() -> Iterator[Cell]:
    for operator, base in BASES.items():
        renamed = base.renamed("i", "j")
        line = replace(renamed, fields={"renames": {"i": "j"}})
        yield Cell(operator, "a key column is renamed", base, renamed, Outcome.REFUSED, ("half full",))
        yield Cell(operator, "a key column is renamed, with `renames`", base, line, Outcome.LINE)
        for what, key, _, kind in _WIDER:
            # Which digits of a number were rounded away is not known.
            outcome = Outcome.GAP if kind == "DOUBLE" else Outcome.CARRIED
            yield Cell(operator, f"a key: {what}", base, base.widened(key, kind), outcome)
        narrow = base.widened("i", "BIGINT")
        yield Cell(operator, "a key: `BIGINT` to `INT`", narrow, base, Outcome.REFUSED, ("half full",))


def _values() -> Iterator[Cell]:
    for operator in _SQL:
        base = BASES[operator]
        renamed = base.renamed("v", "vv")
        line = replace(renamed, fields={"renames": {"v": "vv"}})
        yield Cell(operator, "a value column is renamed", base, renamed, Outcome.REFUSED, ("half full",))
        yield Cell(operator, "a value column is renamed, with `renames`", base, line, Outcome.LINE)
        for what, _, value, kind in _WIDER:
            outcome, top = Outcome.CARRIED, operator == "`max_by` in a window"
            if top and value == "v":
                outcome = Outcome.REFUSED
            if top and value == "m":
                continue
            yield Cell(operator, f"a value: {what}", base, base.widened(value, kind), outcome)
        yield Cell(
            operator,
            "a value: `DOUBLE` to `FLOAT`",
            base.widened("x", "DOUBLE"),
            base,
            Outcome.REFUSED,
            ("half full",),
        )


def _aggregates() -> Iterator[Cell]:
    for operator in _AGGREGATING:
        base = BASES[operator]
        had = base.aggregates
        first, *others = had.items()
        more = {"low": "min({v})", "known": "count({w})"}
        names = list(had)
        yield Cell(
            operator,
            "aggregates are added",
            base,
            base.with_aggregates({**dict([first]), **more, **dict(others)}, *more),
            Outcome.GAP,
        )
        yield Cell(operator, "an aggregate is removed", base, base.without(names[1]), Outcome.CARRIED)
        yield Cell(
            operator,
            "aggregates are reordered",
            base,
            base.with_aggregates(dict(reversed(list(had.items())))),
            Outcome.CARRIED,
        )
        result = base.without(names[1], another=had[names[1]])
        yield Cell(operator, "a result is renamed", base, result, Outcome.RESTORED)
        other = base.with_aggregates({**had, "wide": "min({x})"}, "wide")
        yield Cell(operator, "an aggregate becomes another one", base, other, Outcome.GAP)
        turned = replace(base, keys=base.keys[::-1])
        yield Cell(operator, "keys are reordered", base, turned, Outcome.CARRIED)
        key = replace(base, keys=base.keys[1:])
        yield Cell(operator, "a key is removed", base, key, Outcome.REFUSED, ("half full",))
        yield Cell(operator, "a key is added", key, base, Outcome.REFUSED, ("half full",))
        if "mean" in had:
            column = base.with_aggregates({**had, "high": "max(id)"}, "high")
            yield Cell(
                operator,
                "an aggregate reads another column of its type",
                base,
                column,
                Outcome.REFUSED,
                ("half full",),
            )
            for what, then, now in (
                ("a sum: `DECIMAL` to a larger one", "DECIMAL(20,2)", "DECIMAL(24,4)"),
                (_SMALL_SUM, "DECIMAL(6,2)", "DECIMAL(12,4)"),
            ):
                summed = base.with_aggregates({**had, "total": "sum({m})"})
                yield Cell(operator, what, summed.widened("m", then), summed.widened("m", now), Outcome.CARRIED)
            apart = base.without("mean", sx="sum({x})", cx="count({x})")
            yield Cell(operator, "`sum` and `count` from `avg`", base, apart, Outcome.CARRIED)
            together = base.without("s", "c", middle="avg({v})")
            yield Cell(operator, "`avg` from `sum` and `count`", base, together, Outcome.CARRIED)
        else:
            texts = base.without("top", top="max_by(CAST({v} AS STRING), id, 3)")
            yield Cell(
                operator, "what an aggregate collects gets another type", base, texts, Outcome.REFUSED, ("half full",)
            )


def _times() -> Iterator[Cell]:
    base = BASES["window"]
    yield Cell(
        "window", "windows become unions: 1 minute to 5", base, windows("5 minutes", base.aggregates), Outcome.CARRIED
    )
    top = BASES["`max_by` in a window"]
    yield Cell(
        "`max_by` in a window",
        "windows become unions: 1 minute to 5",
        top,
        windows("5 minutes", top.aggregates),
        Outcome.REFUSED,
        ("half full",),
    )
    for what, size, only in (
        ("windows become unions of which some are closed", "5 minutes", "some closed"),
        ("windows become no unions: 1 minute to 90 seconds", "90 seconds", "half full"),
        ("windows become shorter", "30 seconds", "half full"),
        ("windows slide", "5 minutes', '1 minute", "half full"),
    ):
        yield Cell("window", what, base, windows(size, base.aggregates), Outcome.REFUSED, (only,))
    yield Cell("session", "another gap", BASES["session"], sessions("40 seconds"), Outcome.REFUSED, ("half full",))

    base = BASES["`dropDuplicatesWithinWatermark`"]
    short = replace(base, delay=5)
    yield Cell("`dropDuplicatesWithinWatermark`", "a shorter delay", base, short, Outcome.RESTORED)
    yield Cell("`dropDuplicatesWithinWatermark`", "a longer delay", short, base, Outcome.REFUSED, ("half full",))

    inner, outer = "stream-stream join", "outer join"
    yield Cell(inner, "narrower bounds", BASES[inner], join(before=4, after=4), Outcome.RESTORED)
    yield Cell(inner, "wider bounds", BASES[inner], join(before=40), Outcome.REFUSED, ("half full",))
    yield Cell(inner, "another kind of join", BASES[inner], BASES[outer], Outcome.REFUSED, ("half full",))
    yield Cell(outer, "narrower bounds", BASES[outer], join("LEFT OUTER", 8, -1), Outcome.RESTORED)
    for kind, name in (("INNER", inner), ("LEFT OUTER", outer)):
        more = join(kind, more=", r.{m} AS more")
        yield Cell(name, "a value column is removed", more, BASES[name], Outcome.CARRIED)
        yield Cell(name, "a value column is added", BASES[name], more, Outcome.REFUSED, ("half full",))


def _variables() -> Iterator[Cell]:
    pandas, processor = "`applyInPandasWithState`", "`transformWithState`"
    higher = ", max(v) AS high"
    for operator, name, counted, total in (
        (pandas, "pandas", "count(*) AS n, sum(v) AS total", "sum(v) AS total"),
        (processor, "processor", COUNTED, COUNTED.removeprefix("count(*) AS n, ")),
    ):
        base = BASES[operator]
        added = python(f"{name}_added", counted + higher, gaps=("high",))
        yield Cell(operator, "a state variable is added", base, added, Outcome.GAP)
        yield Cell(operator, "a state variable is removed", base, python(f"{name}_removed", total), Outcome.CARRIED)
        renamed = python(f"{name}_renamed", counted, fields={"renames": {"n": "number"}})
        yield Cell(operator, "a state variable is renamed, with `renames`", base, renamed, Outcome.LINE)
        other = python(f"{name}_other", counted)
        yield Cell(operator, "a state variable gets another type", base, other, Outcome.REFUSED, ("half full",))
    small = python("pandas_small")
    yield Cell(pandas, "a state variable: `INT` to `BIGINT`", small, BASES[pandas], Outcome.CARRIED)
    wide = python("processor_widened", COUNTED)
    yield Cell(processor, "a state variable: `INT` to `BIGINT`", BASES[processor], wide, Outcome.CARRIED)
    reordered = python("pandas_reordered")
    yield Cell(pandas, "state variables are reordered", BASES[pandas], reordered, Outcome.CARRIED)


def _queries() -> Iterator[Cell]:
    """Changes of which only the author knows what they make of the state."""
    counts = ", ".join(f"sum({each}) AS {each}" for each in ("count", "sum", "count_2", "sum_2", "count_3"))
    merged = f"{counts}, " + ", ".join(f"max({each}) AS {each}" for each in ("max", "max_2", "max_3", "max_4"))
    fewer = ", ".join(KEYS[1:])
    for operator, sql in (
        ("window", f"SELECT window, {fewer}, {merged} FROM state GROUP BY window, {fewer}"),
        ("grouped without window", f"SELECT {fewer}, {merged} FROM state GROUP BY {fewer}"),
        ("`dropDuplicates`", "SELECT DISTINCT * EXCEPT (k) FROM state"),
    ):
        base = BASES[operator]
        now = replace(base, keys=base.keys[1:]) if base.aggregates else replace(base, body="duplicates_without_k")
        yield Cell(operator, "a key is removed, with a query", base, replace(now, migrate=sql), Outcome.QUERY)
    for operator in (
        "session",
        "`max_by` in a window",
        "`dropDuplicates`",
        "`dropDuplicatesWithinWatermark`",
        "`applyInPandasWithState`",
    ):
        base = BASES[operator]
        sql = "SELECT CAST(i AS STRING) AS i, * EXCEPT (i) FROM state"
        now = replace(base.widened("i", "STRING"), migrate=sql)
        yield Cell(operator, "a key: `INT` to `STRING`, with a query", base, now, Outcome.QUERY)
    for operator in ("session", "grouped without window"):
        base = BASES[operator]
        now = replace(
            base.without("s", twice="sum({v} * 2)"), migrate="SELECT * EXCEPT (sum), sum * 2 AS sum FROM state"
        )
        yield Cell(operator, "an aggregate follows from another one, with a query", base, now, Outcome.QUERY)
    base, of_five = BASES["window"], "window(window.start, '5 minutes')"
    keys = ", ".join(KEYS)
    sql = f"SELECT {of_five} AS window, {keys}, {merged} FROM state GROUP BY {of_five}, {keys}"
    now = replace(base, body=windows("5 minutes", {}).body, migrate=sql)
    yield Cell("window", "windows become unions, with a query", base, now, Outcome.QUERY)
    text = "named_struct('n', CAST(groupState.n AS STRING), 'total', groupState.total) AS groupState"
    other = python("pandas_other", migrate=f"SELECT * EXCEPT (groupState), {text} FROM state")
    operator = "`applyInPandasWithState`"
    yield Cell(operator, "a state variable gets another type, with a query", BASES[operator], other, Outcome.QUERY)


def _together() -> Iterator[Cell]:
    """Changes of several kinds at once."""
    for operator in _AGGREGATING:
        base = BASES[operator]
        had = dict(reversed(list(base.aggregates.items())))
        del had["wide"]
        now = base.renamed("i", "j").renamed("x", "xx").widened("d", "DECIMAL(12,4)").widened("w", "TIMESTAMP")
        now = replace(now, fields={"renames": {"i": "j", "x": "xx"}})
        if operator == "window":
            now = replace(now, body=windows("5 minutes", {}).body)
        now = now.with_aggregates({"low": "min({v})", **had}, "low")
        yield Cell(operator, "all of it at once", base, now, Outcome.GAP)


CELLS: tuple[Cell, ...] = (*_aggregates(), *_values(), *_keys(), *_times(), *_variables(), *_queries(), *_together())

BY_NAME: Mapping[str, Cell] = {f"{cell.operator}: {cell.change}": cell for cell in CELLS}
# The jobs before the change are shared by all changes of a query.
ATTEMPTS = [(name, state) for name, cell in sorted(BY_NAME.items()) for state in cell.states()]
"""Each change with each state in which it is tried."""
_IN_EACH_STATE = (
    "aggregates are added",
    "all of it at once",
    "windows become unions: 1 minute to 5",
    "narrower bounds",
)
KEPT = [
    (name, state)
    for name, state in ATTEMPTS
    if state == "half full" or len(BY_NAME[name].states()) == 1 or BY_NAME[name].change in _IN_EACH_STATE
]
"""What `make test-long` tries; the rest is thorough."""
