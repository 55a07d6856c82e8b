"""The memory that scaling has of a job, all in `status.autoscaling`: a controller that restarts decides as before."""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from pydantic import ConfigDict, TypeAdapter

from streamjob.autoscaling.arrivals import Arrivals
from streamjob.autoscaling.chain_model import ChainModel
from streamjob.autoscaling.load import KEPT, LoadReport
from streamjob.autoscaling.policy import Means

PAUSES_KEPT = 5
"""As specified: the longest of five counts, as an early restart costs more than a late one."""
MOVES_KEPT = 48
"""Twice the default budget of restarts in a day."""
WIDTHS_KEPT = 8
"""More widths than a job has in a day but on bursty loads."""


@dataclass(frozen=True, slots=True)
class Move:
    """A change of the number of slots.

    Args:
        time: when it was decided, seconds since 1970.
        capacity: records per second before it.
        expected: factor of capacity that was expected.
        reached: factor of capacity that was measured; None if it was not measured yet, or not at all.
        confirmed: whether the job ran with the new slots, and completed a checkpoint if it takes any.
    """

    __pydantic_config__: ClassVar[ConfigDict] = KEPT

    time: float
    before: int
    after: int
    means: Means
    rule: str
    capacity: float
    expected: float
    reached: float | None = None
    confirmed: bool = False


@dataclass(frozen=True, slots=True)
class FullLoad:
    """The throughput with a number of slots while records waited all along.

    Args:
        rate: records per second.
        seconds: seconds of observation, of which the last ten minutes count.
        time: of the last observation, seconds since 1970.
    """

    __pydantic_config__: ClassVar[ConfigDict] = KEPT

    slots: int
    rate: float
    seconds: float
    time: float


@dataclass(frozen=True, slots=True)
class Knee:
    """The number of slots above which more do not help, as measured by a move.

    Args:
        chain: the chain that takes most of the time.
        found: when, seconds since 1970.
        gained: measured gain of the move that found it, as a share of the expected gain.
    """

    __pydantic_config__: ClassVar[ConfigDict] = KEPT

    slots: int
    chain: str
    found: float
    gained: float


@dataclass(slots=True)
class Memory:
    """The model of a job, its arrivals and its moves. Treat it as a value: `decide` returns a new one.

    Args:
        seen: the last report whose counters were taken in.
        heard: time of the last report, whether or not its counters had changed.
        chains: the chains, fitted.
        knee: the number of slots above which more do not help; None if unknown.
        skew: unread records of the largest partition, as a multiple of an even share; 1 without skew.
        full: throughput under full load by number of slots, the last one at the end.
        pauses: the last measured pauses by restarts, seconds.
        down_since: when the job was last seen running before the present pause; None while it runs.
        running_since: when it was first seen to make progress in its present process; None before.
        slots: slots that the model of the chains is for.
        moves: the moves of the last day, oldest first.
        patience: doublings of the delay before slots are removed.
        patience_since: when that last changed.
        paused_until: no moves before, because one had failed; seconds since 1970.
    """

    __pydantic_config__: ClassVar[ConfigDict] = KEPT

    version: Literal[1] = 1
    seen: LoadReport | None = None
    heard: float | None = None
    arrivals: Arrivals = field(default_factory=Arrivals)
    chains: tuple[ChainModel, ...] = ()
    knee: Knee | None = None
    skew: float = 1.0
    full: tuple[FullLoad, ...] = ()
    pauses: tuple[float, ...] = ()
    down_since: float | None = None
    running_since: float | None = None
    slots: int | None = None
    moves: tuple[Move, ...] = ()
    patience: int = 0
    patience_since: float = 0.0
    paused_until: float = 0.0


_ADAPTER = TypeAdapter(Memory)


def pack_memory(memory: Memory) -> str:
    """Return a memory as one short line of text, for a status that people read; numbers keep all their digits."""
    return base64.b64encode(zlib.compress(_ADAPTER.dump_json(memory, exclude_defaults=True), 9)).decode()


def unpack_memory(text: str) -> Memory:
    """Return the memory in a line of text; an empty one if the text holds none of this version."""
    try:
        return _ADAPTER.validate_json(zlib.decompress(base64.b64decode(text, validate=True)))
    except (zlib.error, ValueError):
        return Memory()
