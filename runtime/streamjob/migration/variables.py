"""Tells which column families belong to each variable of `transformWithState`, and to its timers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from streamjob.migration.state import Family, KeptState

WITH_VARIABLES = "transformWithStateInPySparkExec"
"""Spark's name of an operator with variables that a Python function declares."""

COUNTS = ("$count_", "$rowCounter_")
"""How the names of the column families begin in which Spark counts the elements of a variable."""
TTL = "$ttl_"
_BESIDE = (TTL, "$min_", *COUNTS)
_TIMERS = ("$eventTimers_", "$procTimers_")


@dataclass(frozen=True)
class Variable:
    """A state variable with its tables, by how their names begin: those of its own, and an index, say.

    A list has several values for a key, and a map has `userKey` in its key.
    """

    name: str
    families: Mapping[str, Family]

    @property
    def own(self) -> Family:
        """The table of its values."""
        return self.families[""]

    @property
    def expires(self) -> bool:
        """Whether its values have a time to live."""
        return TTL in self.families

    @property
    def is_map(self) -> bool:
        """Whether its values have keys of their own."""
        return any(each.name == "userKey" for each in self.own.key)

    @property
    def kind(self) -> str:
        """What it is, in words."""
        kind = "list" if self.own.many else "map" if self.is_map else "value"
        return f"{kind} that expires" if self.expires else kind


def variables_of(state: KeptState) -> Iterator[Variable]:
    """Return the variables of an operator."""
    families = {each.name: each for each in state.families if not is_of_timers(each)}
    for name, own in families.items():
        if not name.startswith(_BESIDE):
            beside = {prefix: families[prefix + name] for prefix in _BESIDE if prefix + name in families}
            yield Variable(name, {"": own, **beside})


def is_of_timers(family: Family) -> bool:
    """Return whether a table has the timers of an operator, by their keys or by their times."""
    return family.name.startswith(_TIMERS)
