"""Lists the tables that Spark can make of a stateful operator's state, and their names in queries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from streamjob.ids import ChainUid
from streamjob.stored.state_stores import DEFAULT_STORE, JOIN, StateOperator

_SIDE = "joinSide"
_NOT_A_NAME = re.compile(r"\W+")


@dataclass(frozen=True, slots=True)
class View:
    """A table of an operator's state.

    Args:
        name: its name in queries.
        title: a title for people.
        options: options for Spark's state store reader.
        internal: whether it only shows how Spark stores the content of another view.
    """

    name: str
    title: str
    operator: StateOperator
    options: tuple[tuple[str, str], ...] = ()
    internal: bool = False

    @property
    def chain(self) -> ChainUid:
        """The operator's chain."""
        return self.operator.chain

    @property
    def is_side_of_join(self) -> bool:
        """Whether it holds the rows that wait on one side of a join."""
        return any(name == _SIDE for name, _ in self.options)


def views_of(operators: Sequence[StateOperator]) -> tuple[View, ...]:
    """Return the tables of some operators: `state`, or `state_<which>` if there are several."""
    several = len(operators) > 1
    views: list[View] = []
    for operator in operators:
        prefix = f"state_{operator.chain}_{operator.id}" if several else "state"
        for suffix, title, options, internal in _parts(operator):
            name = _NOT_A_NAME.sub("_", f"{prefix}_{suffix}" if suffix else prefix)
            views.append(View(name, f"{_whose(operator)}{title}", operator, options, internal))
    return tuple(views)


def _parts(operator: StateOperator) -> Iterator[tuple[str, str, tuple[tuple[str, str], ...], bool]]:
    names = [store.name for store in operator.stores]
    if operator.name == JOIN:
        for side in ("left", "right"):
            yield side, f", the rows of the {side} side", ((_SIDE, side),), False
        for name in names:
            yield name, f", store {name}", (("storeName", name),), True
        return
    if operator.variables or operator.timers:
        shown = [(name, kind) for name, kind in sorted(operator.variables.items()) if not name.startswith("$")]
        alone = len(shown) == 1 and not operator.timers
        for name, kind in shown:
            yield "" if alone else name, f", {kind} {name!r}", (("stateVarName", name),), False
        if operator.timers:
            yield "timers", ", timers", (("readRegisteredTimers", "true"),), False
        return
    for name in names:
        alone = name == DEFAULT_STORE
        yield "" if alone else name, "" if alone else f", store {name}", (("storeName", name),), False


def _whose(operator: StateOperator) -> str:
    uids = " or ".join(operator.uids)
    return f"{uids}: {operator.name} {operator.id} of chain {operator.chain}"
