"""The request and the result of reading a snapshot's state as tables. The reader itself is in the runtime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from streamjob.errors import InvalidInput
from streamjob.ids import ChainUid, OperatorUid
from streamjob.snapshot.manifest import ChannelState, Manifest
from streamjob.stored.reading import StoredSnapshot
from streamjob.stored.state_stores import StateOperator


class NoSuchState(InvalidInput):
    """The snapshot has no state of the requested operator."""


class NoSuchChannel(InvalidInput):
    """The snapshot has no channel with the requested name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesRequest:
    """A request for tables.

    Args:
        snapshot: a snapshot with a manifest.
        operators: the stateful operators to read.
        channel: the channel whose in-flight data is read; None for none.
        sql: a query over the views of this state; None to return the views themselves.
        limit: maximum number of rows per table.
        progress: receives a description of the work, the bytes read so far, and the bytes in total.
    """

    snapshot: StoredSnapshot
    operators: tuple[StateOperator, ...] = ()
    channel: ChannelState | None = None
    sql: str | None = None
    limit: int = 20
    progress: Callable[[str, int, int], None] = lambda *_: None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTable:
    """The rows of a view or of a query.

    Args:
        view: the view's name in queries; None for a query's result.
        title: a title for people.
        columns: the name of each column as a path from the outermost field to the innermost: `key.window.start` has
            three parts.
        rows: rows as JSON values, nested like the columns.
        more: whether there are more rows than the limit.
    """

    view: str | None
    title: str
    columns: tuple[tuple[str, ...], ...]
    rows: tuple[dict[str, Any], ...]
    more: bool


def choose_operators(
    manifest: Manifest, operators: Sequence[StateOperator], uid: OperatorUid
) -> tuple[StateOperator, ...]:
    """Return the stateful operators that hold, or may hold, the state of one of the job's operators.

    Raises:
        NoSuchState: there are none.
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
    """Return the channel named `FROM:TO`.

    Raises:
        NoSuchChannel: there is no such channel.
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
