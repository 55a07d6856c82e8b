"""Functions of jobs with state of their own, imported by the jobs' Python workers as well."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NO_KEYS = ("id", "at", "v", "x", "m", "w")


def _keys(rows: DataFrame) -> list[str]:
    return [each for each in rows.columns if each not in _NO_KEYS]


def duplicates(rows: DataFrame) -> DataFrame:
    """Return the rows without those that came before, by their keys and times."""
    keys = _keys(rows)
    return rows.dropDuplicates([*keys, "at"]).select("id", "at", *keys)


def duplicates_without_k(rows: DataFrame) -> DataFrame:
    """Return the same by fewer keys."""
    keys = _keys(rows)
    return rows.dropDuplicates([*(each for each in keys if each != "k"), "at"]).select("id", "at", *keys)


def within_watermark(rows: DataFrame) -> DataFrame:
    """Return the rows without those that came a short time before."""
    keys = _keys(rows)
    return rows.dropDuplicatesWithinWatermark(["id", *keys]).select("id", "at", *keys)


def _with_pandas(rows: DataFrame, state: str, result: str, shown: Sequence[str]) -> DataFrame:
    """Return counts by key.

    Args:
        state: the columns of the state, each called for what it counts.
        result: the columns of the result behind the key.
        shown: the columns of the state that these show.
    """
    from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

    kinds = dict(each.split() for each in state.split(", "))
    names = list(kinds)
    key = _keys(rows)[0]
    columns = [key, *(each.split()[0] for each in result.split(", "))]

    def count(group: tuple[Any, ...], frames: Iterator[Any], held: GroupState) -> Iterator[Any]:
        import pandas as pd

        counted = dict(zip(names, held.get, strict=True)) if held.exists else dict.fromkeys(names)
        for frame in frames:
            values = [int(each) for each in frame["v"] if each == each and each is not None]
            for name in names:
                had = counted[name]
                match name:
                    case "n" | "number":
                        counted[name] = int(had or 0) + len(frame)
                    case "total":
                        counted[name] = (had or 0) + sum(values)
                    case _:
                        counted[name] = max([*values, *([] if had is None else [had])], default=None)
        held.update(tuple(str(counted[name]) if kinds[name] == "STRING" else counted[name] for name in names))
        first = group[0] if group[0] == group[0] else None
        yield pd.DataFrame([(first, *(counted[name] for name in shown))], columns=columns).astype(object)

    return rows.groupBy(*_keys(rows)).applyInPandasWithState(
        count, f"{key} STRING, {result}", state, "append", GroupStateTimeout.NoTimeout
    )


def pandas_counts(rows: DataFrame) -> DataFrame:
    """Return how many rows of each key there are, and the sum of their values."""
    return _with_pandas(rows, "n BIGINT, total BIGINT", "n BIGINT, total BIGINT", ["n", "total"])


def pandas_small(rows: DataFrame) -> DataFrame:
    """Return the same; the number is kept as an integer."""
    return _with_pandas(rows, "n INT, total BIGINT", "n BIGINT, total BIGINT", ["n", "total"])


def pandas_added(rows: DataFrame) -> DataFrame:
    """Return the highest value as well."""
    return _with_pandas(
        rows, "n BIGINT, total BIGINT, high INT", "n BIGINT, total BIGINT, high INT", ["n", "total", "high"]
    )


def pandas_removed(rows: DataFrame) -> DataFrame:
    """Return no number."""
    return _with_pandas(rows, "total BIGINT", "total BIGINT", ["total"])


def pandas_renamed(rows: DataFrame) -> DataFrame:
    """Return the same from state with other names."""
    return _with_pandas(rows, "number BIGINT, total BIGINT", "n BIGINT, total BIGINT", ["number", "total"])


def pandas_reordered(rows: DataFrame) -> DataFrame:
    """Return the same from state in another order."""
    return _with_pandas(rows, "total BIGINT, n BIGINT", "n BIGINT, total BIGINT", ["n", "total"])


def pandas_other(rows: DataFrame) -> DataFrame:
    """Return the same from a text of it."""
    return _with_pandas(rows, "n STRING, total BIGINT", "n BIGINT, total BIGINT", ["n", "total"])


def _with_processor(rows: DataFrame, variables: dict[str, str], result: str, shown: Sequence[str]) -> DataFrame:
    """Return counts by key.

    Args:
        variables: their types, each called for what it counts, or a part of it.
        result: the columns of the result behind the key.
        shown: the variables that these show.
    """
    from pyspark.sql import Row as SparkRow
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

    key = _keys(rows)[0]
    columns = [key, *(each.split()[0] for each in result.split(", "))]

    class Counts(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self.values = {
                name: handle.getValueState(name, f"value {kind}") for name, kind in variables.items() if kind in _PLAIN
            }
            self.ids = handle.getListState("ids", variables["ids"]) if "ids" in variables else None
            self.sums = handle.getMapState("sums", "id INT", variables["sums"]) if "sums" in variables else None

        def handleInputRows(self, group: Any, rows: Any, timerValues: Any) -> Iterator[SparkRow]:
            found = [(row["id"], row["v"]) for row in rows]
            values = [value for _, value in found if value is not None]
            counted: dict[str, Any] = {}
            for name, state in self.values.items():
                (had,) = state.get() or (None,)
                match name:
                    case "n" | "number":
                        counted[name] = (had or 0) + len(found)
                    case "total":
                        counted[name] = (had or 0) + sum(values)
                    case _:
                        counted[name] = max([*values, *([] if had is None else [had])], default=None)
                state.update((counted[name],))
            if self.ids is not None:
                self.ids.appendList([(number,) for number, _ in found])
                counted["ids"] = len(list(self.ids.get()))
            if self.sums is not None:
                for number, value in found:
                    (had,) = self.sums.getValue((number,)) or (0,)
                    self.sums.updateValue((number,), (had + (value or 0),))
                counted["sums"] = sum(value for _, (value,) in self.sums.iterator())
            yield SparkRow(**dict(zip(columns, (group[0], *(counted[name] for name in shown)), strict=True)))

        def close(self) -> None:
            pass

    return rows.groupBy(*_keys(rows)).transformWithState(Counts(), f"{key} STRING, {result}", "append", "none")


_PLAIN = ("INT", "BIGINT")
_VARIABLES = {"n": "INT", "total": "BIGINT", "ids": "id INT", "sums": "sum BIGINT"}
_RESULT = "n BIGINT, total BIGINT, listed BIGINT, mapped BIGINT"
_SHOWN = ["n", "total", "ids", "sums"]


def processor_counts(rows: DataFrame) -> DataFrame:
    """Return how many rows of each key there are, and the sum of their values, from variables of each kind."""
    return _with_processor(rows, _VARIABLES, _RESULT, _SHOWN)


def processor_added(rows: DataFrame) -> DataFrame:
    """Return the highest value as well."""
    return _with_processor(rows, {**_VARIABLES, "high": "INT"}, f"{_RESULT}, high INT", [*_SHOWN, "high"])


def processor_removed(rows: DataFrame) -> DataFrame:
    """Return no number."""
    variables = {name: kind for name, kind in _VARIABLES.items() if name != "n"}
    return _with_processor(rows, variables, "total BIGINT, listed BIGINT, mapped BIGINT", _SHOWN[1:])


def processor_renamed(rows: DataFrame) -> DataFrame:
    """Return the same from a variable of another name."""
    variables = {"number": "INT", **{name: kind for name, kind in _VARIABLES.items() if name != "n"}}
    return _with_processor(rows, variables, _RESULT, ["number", *_SHOWN[1:]])


def processor_widened(rows: DataFrame) -> DataFrame:
    """Return the same from variables of larger types."""
    return _with_processor(rows, {**_VARIABLES, "n": "BIGINT"}, _RESULT, _SHOWN)


def processor_other(rows: DataFrame) -> DataFrame:
    """Return the same from a list of other elements."""
    return _with_processor(rows, {**_VARIABLES, "ids": "id STRING"}, _RESULT, _SHOWN)
