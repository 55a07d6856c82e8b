"""Assigns the stateful operators that Spark numbers in a query to the operators of the job.

Spark counts from the query's output towards its inputs, from left to right. The job's operators lie in the same order
in the query into which they are fused. The stateful parts of SQL operators are known; those of Python operators are
not. So the known ones are matched from both ends of Spark's list, and the rest belongs to the Python operators.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from streamjob.ids import OperatorUid
from streamjob.job.planning.graph import tables_of
from streamjob.job.query.sql import stateful_parts

KINDS = {
    "stateStoreSave": "aggregation",
    "sessionWindowStateStoreSaveExec": "aggregation",
    "symmetricHashJoin": "join",
    "globalLimit": "limit",
    "transformWithStateExec": "temporal",
}
"""Spark's names for the stateful operators that SQL and joins of versions create."""


def owners(
    graph: Mapping[str, Any], operators: Sequence[OperatorUid], names: Sequence[str]
) -> tuple[tuple[OperatorUid, ...], ...]:
    """Return the owners of a chain's stateful operators: one uid each, or several if it is ambiguous.

    Args:
        graph: the job's graph, as stored in a manifest.
        operators: the uids in the chain, including sources and sinks.
        names: Spark's names of the chain's stateful operators, by number.
    """
    ordered = from_the_output(graph, frozenset(operators))
    static = tables_of(graph)
    parts = [_parts(operator, static) for operator in ordered]
    uids = [OperatorUid(operator["uid"]) for operator in ordered]
    if len(uids) == 1:
        return ((uids[0],),) * len(names)
    kinds = [KINDS.get(name, name) for name in names]
    front = _matched(parts, kinds)
    if front is None:
        return (_all(uids, parts),) * len(names)
    back = _matched(parts[len(front) :][::-1], kinds[sum(front) :][::-1]) if len(front) < len(parts) else []
    if back is None:
        return (_all(uids, parts),) * len(names)
    known = len(front) + len(back)
    middle = len(names) - sum(front) - sum(back)
    if middle and known == len(parts):
        return (_all(uids, parts),) * len(names)
    between = _all(uids[len(front) : len(uids) - len(back)], parts[len(front) : len(uids) - len(back)])
    found: list[tuple[OperatorUid, ...]] = [
        (uid,) for uid, count in zip(uids, front, strict=False) for _ in range(count)
    ]
    found += [between] * middle
    behind = list(zip(uids[::-1], back, strict=False))[::-1]
    return (*found, *((uid,) for uid, count in behind for _ in range(count)))


def _matched(parts: Sequence[Counter[str] | None], kinds: Sequence[str]) -> list[int] | None:
    """Return the number of stateful operators of each leading operator, up to the first unknown one.

    None if Spark's list does not match.
    """
    counts: list[int] = []
    position = 0
    for part in parts:
        if part is None:
            break
        count = part.total()
        if Counter(kinds[position : position + count]) != part:
            return None
        counts.append(count)
        position += count
    return counts


def _all(uids: Sequence[OperatorUid], parts: Sequence[Counter[str] | None]) -> tuple[OperatorUid, ...]:
    return tuple(uid for uid, part in zip(uids, parts, strict=True) if part is None or part) or tuple(uids)


def _parts(operator: Mapping[str, Any], static: frozenset[str]) -> Counter[str] | None:
    if operator.get("lookup") is not None:
        return Counter()
    if operator.get("temporalJoin") is not None:
        return Counter(["temporal"])
    sql = operator.get("sql")
    found = stateful_parts(sql, static) if isinstance(sql, str) else None
    return None if found is None else Counter(found)


def from_the_output(graph: Mapping[str, Any], chain: frozenset[str]) -> list[Mapping[str, Any]]:
    """Return the chain's operators in the order of its query: each before its inputs, inputs from left to right."""
    by_name = {each["name"]: each for each in graph.get("operators", ()) if each["uid"] in chain}
    read = {edge["from"] for each in by_name.values() for edge in each["inputs"] if not edge.get("feedback")}
    ordered: dict[str, Mapping[str, Any]] = {}

    def visit(name: str) -> None:
        if name in by_name and name not in ordered:
            ordered[name] = by_name[name]
            for edge in by_name[name]["inputs"]:
                if not edge.get("feedback"):
                    visit(edge["from"])

    for name in by_name:
        if name not in read:
            visit(name)
    return list(ordered.values())
