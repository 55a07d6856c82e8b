"""Asking for a snapshot's state as tables: what is asked, and what comes back. The runtime has the reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from streamjob.errors import InvalidInput
from streamjob.ids import ChainUid, OperatorUid
from streamjob.snapshot.manifest import ChannelState, Manifest
from streamjob.stored.reading import StoredSnapshot
from streamjob.stored.state_stores import StateOperator


class NoSuchState(InvalidInput):
    """The snapshot has no state of the operator that was asked for."""


class NoSuchChannel(InvalidInput):
    """The snapshot has no channel of the name that was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesRequest:
    """What is to be read.

    Args:
        snapshot: a snapshot with a manifest.
        operators: the stateful operators whose state is read.
        channel: the channel whose data in flight is read; None for none.
        sql: a query over the views of what is read; None for the views themselves.
        limit: rows that each table has at most.
        progress: is told what is being done, the bytes that were read, and all that are to be read.
    """

    snapshot: StoredSnapshot
    operators: tuple[StateOperator, ...] = ()
    channel: ChannelState | None = None
    sql: str | None = None
    limit: int = 20
    progress: Callable[[str, int, int], None] = lambda *_: None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTable:
    """Rows of one view, or of a query.

    Args:
        view: the view's name in queries; None for what a query gave.
        title: what it is, for people.
        columns: the names from the outermost to the innermost of each column, so that `key.window.start` has three.
        rows: JSON-able objects, nested as the columns are.
        more: whether there are rows beyond the limit.
    """

    view: str | None
    title: str
    columns: tuple[tuple[str, ...], ...]
    rows: tuple[dict[str, Any], ...]
    more: bool


class ReadTables(Protocol):
    """Reads what a request asks for."""

    def __call__(self, request: TablesRequest) -> Iterator[StateTable]:
        """Yield the tables, in the order of the operators."""
        ...


def choose_operators(
    manifest: Manifest, operators: Sequence[StateOperator], uid: OperatorUid
) -> tuple[StateOperator, ...]:
    """Return the stateful operators that are, or may be, the state of one of the job's operators.

    Raises:
        NoSuchState: there is none.
    """
    found = tuple(each for each in operators if uid in each.uids)
    if found:
        return found
    there = sorted({each for operator in operators for each in operator.uids})
    fix = f"state is there of {', '.join(there)}" if there else "no operator of this snapshot has state"
    states = {each.uid: each for each in manifest.operators}
    if uid not in states:
        raise NoSuchState(f"the snapshot knows no operator {uid!r}", fix)
    if states[uid].finished:
        raise NoSuchState(f"operator {uid!r} has finished: its state is not kept", fix)
    raise NoSuchState(f"operator {uid!r} has no state in the snapshot", fix)


def choose_channel(manifest: Manifest, name: str) -> ChannelState:
    """Return the channel that `FROM:TO` names.

    Raises:
        NoSuchChannel: there is none.
    """
    source, _, target = name.partition(":")
    for channel in manifest.channels:
        if (channel.source, channel.target) == (ChainUid(source), ChainUid(target)):
            return channel
    there = ", ".join(f"{channel.source}:{channel.target}" for channel in manifest.channels)
    raise NoSuchChannel(
        f"the snapshot has no channel {name!r}",
        f"there are {there}" if there else "the job is of one chain, without channels",
    )
