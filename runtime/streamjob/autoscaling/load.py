"""One observation of a job: the figures that scaling is decided from. Also a line of a recorded trace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.alias_generators import to_camel

CONFIG = ConfigDict(alias_generator=to_camel, validate_by_name=True, serialize_by_alias=True, extra="forbid")
KEPT = ConfigDict(**CONFIG | {"extra": "ignore"})
"""Of what a memory keeps from one decision to the next: an earlier version may have kept more."""

_Count = Annotated[int, Field(ge=0)]
_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class ChainLoad:
    """The work of a chain since its process started.

    Args:
        rows: records read.
        batches: batches published.
        seconds: their durations, added up.
        backpressured_seconds: seconds that it waited for the chains that read it.
    """

    __pydantic_config__: ClassVar[ConfigDict] = CONFIG

    uid: str
    rows: _Amount
    batches: _Count
    seconds: _Amount
    backpressured_seconds: _Amount = 0.0


@dataclass(frozen=True, slots=True)
class SourceLoad:
    """A source as its last batch found it.

    Args:
        lag: unread records, of files an estimate; None if the source does not report them.
        record_bytes: bytes per record that this is estimated by; None if the records are counted.
        position: records read since the source's beginning, or the sum of its offsets; None if unknown.
        partitions: partitions that can be read in parallel; None if unknown.
        largest_lag: unread records of the partition with most of them; None if unknown.
    """

    __pydantic_config__: ClassVar[ConfigDict] = CONFIG

    uid: str
    lag: _Amount | None = None
    position: _Amount | None = None
    partitions: _Count | None = None
    largest_lag: _Amount | None = None
    record_bytes: _Amount | None = None


@dataclass(frozen=True, slots=True)
class LoadReport:
    """A job at one moment.

    Args:
        time: seconds since 1970.
        slots: task slots of the running process.
        rows: records read from sources since the process started.
        running: whether the job processes records.
        process: identifies the process: counters start at 0 with it.
        busy_with: why no change is possible now, such as an upgrade; empty otherwise.
        in_place_slots: most slots that the process can use without a restart; None if it cannot change them.
        executor_slots: slots of each executor, which come and go together; None if all slots are in one process.
        slots_in_use: slots whose executors take part; None if all do.
        max_parallelism: partitions of the state; None if unknown.
        stateful: whether the job has state; None if unknown.
        state_bytes: size of the state in the last checkpoint; None if unknown.
        checkpoint_age: seconds since the last completed checkpoint; None before the first.
        checkpoint_interval: seconds from one checkpoint to the next; None without periodic ones.
    """

    __pydantic_config__: ClassVar[ConfigDict] = CONFIG

    time: Annotated[float, Field(allow_inf_nan=False)]
    slots: Annotated[int, Field(ge=1)]
    rows: _Amount
    chains: tuple[ChainLoad, ...]
    sources: tuple[SourceLoad, ...] = ()
    running: bool = True
    process: str = ""
    busy_with: str = ""
    in_place_slots: _Count | None = None
    executor_slots: Annotated[int, Field(ge=1)] | None = None
    slots_in_use: _Count | None = None
    max_parallelism: _Count | None = None
    stateful: bool | None = None
    state_bytes: _Count | None = None
    checkpoint_age: _Amount | None = None
    checkpoint_interval: _Amount | None = None

    @property
    def lag(self) -> float | None:
        """Unread records of all sources; None if a source does not report them."""
        return _sum(source.lag for source in self.sources)

    @property
    def is_complete(self) -> bool:
        """Whether all slots take part: no executor is missing, or about to leave."""
        return self.slots_in_use is None or self.slots_in_use == self.slots

    @property
    def hindrance(self) -> str:
        """Why no change is possible now; empty if one is."""
        return self.busy_with or ("" if self.is_complete else "executors that are missing, or about to leave")

    @property
    def position(self) -> float | None:
        """Positions of all sources, added up; None if a source does not report it."""
        return _sum(source.position for source in self.sources)


def _sum(values: Iterable[float | None]) -> float | None:
    """Return the sum of values; None if one is None, or there are none."""
    known = list(values)
    return float(sum(each for each in known if each is not None)) if known and None not in known else None


_ADAPTER = TypeAdapter(LoadReport)


def read_load(line: str | bytes) -> LoadReport:
    """Return the report that a line of JSON holds.

    Raises:
        pydantic.ValidationError: it holds none.
    """
    return _ADAPTER.validate_json(line)


def write_load(load: LoadReport) -> dict[str, Any]:
    """Return a report as values for JSON, under camelCase names."""
    written: dict[str, Any] = _ADAPTER.dump_python(load, mode="json", exclude_defaults=True)
    return written
