"""The log of a producer: consecutive entries, watermarks, and the data after a position."""

from __future__ import annotations

import pytest

from streamjob.ids import CheckpointId
from streamjob.protocol.emissions.channels import (
    END_OF_TIME_MS,
    Backlog,
    BrokenLog,
    ChannelLog,
    Entry,
    EntryKind,
    Segment,
)


def segments(*names: str) -> list[Segment]:
    return [Segment(name=name, records=2, length=10) for name in names]


def kinds(entries: tuple[Entry, ...]) -> list[tuple[int, EntryKind, int | None]]:
    return [(entry.index, entry.kind, entry.watermark_ms) for entry in entries]


def test_only_the_last_entry_of_a_batch_has_its_watermark() -> None:
    log = ChannelLog("a")

    assert kinds(log.append_data(segments("x", "y"), 70)) == [(0, EntryKind.DATA, None), (1, EntryKind.DATA, 70)]


def test_a_batch_without_rows_is_an_entry_only_if_the_watermark_has_advanced() -> None:
    log = ChannelLog("a", next_index=3, watermark_ms=50)

    assert log.append_data([], None) == ()
    assert log.append_data([], 50) == ()
    assert kinds(log.append_data([], 51)) == [(3, EntryKind.DATA, 51)]
    assert log.append_data([], 51) == ()


def test_the_watermark_never_goes_back() -> None:
    log = ChannelLog("a")
    log.append_data([], 50)
    assert kinds(log.append_data(segments("x"), 40)) == [(1, EntryKind.DATA, 50)]
    assert kinds(log.append_data(segments("y"), None)) == [(2, EntryKind.DATA, 50)]
    assert log.watermark_ms == 50


def test_a_position_has_the_newest_watermark_before_it() -> None:
    log = ChannelLog("a")
    log.append_data(segments("x"), None)
    log.append_data(segments("y"), 20)
    log.append_barrier(CheckpointId(1))
    log.append_data([], 30)

    assert [log.watermark_at(position) for position in range(5)] == [None, None, 20, 20, 30]


def test_the_watermark_behind_the_end_is_the_end_of_time() -> None:
    log = ChannelLog("a")
    log.append_data(segments("x"), 20)
    log.append_end()

    assert [log.watermark_at(position) for position in range(3)] == [None, 20, END_OF_TIME_MS]


def test_watermarks_and_backlog_outlive_the_entries_before_a_position() -> None:
    log = ChannelLog("a")
    log.append_data(segments("x", "y"), 20)
    log.append_data(segments("z"), None)
    log.drop_below(2)

    assert (log.base, log.next) == (2, 3)
    assert log.watermark_at(2) == 20
    assert (log.backlog(2), log.backlog(3)) == (Backlog(records=2, bytes=10), Backlog())
    assert kinds(log.between(2, 3)) == [(2, EntryKind.DATA, 20)]
    log.drop_below(1)
    assert log.base == 2


def test_indexes_go_on_when_everything_is_dropped() -> None:
    log = ChannelLog("a")
    log.append_data(segments("x"), None)
    log.drop_below(7)

    assert (log.base, log.next) == (1, 1)
    assert log.append_barrier(CheckpointId(4)).index == 1


@pytest.mark.parametrize("position", [0, 3])
def test_a_position_outside_the_log_is_refused(position: int) -> None:
    log = ChannelLog("a", next_index=1)
    log.append_data(segments("x"), None)
    with pytest.raises(BrokenLog, match=f"position {position} is outside the stream of a"):
        log.watermark_at(position)
    with pytest.raises(BrokenLog):
        log.backlog(position)
    with pytest.raises(BrokenLog):
        log.between(min(position, 1), max(position, 2))


def test_nothing_comes_behind_the_end() -> None:
    log = ChannelLog("a")
    log.append_end()
    with pytest.raises(BrokenLog, match="after the end"):
        log.append_data(segments("x"), None)
    with pytest.raises(BrokenLog, match="after the end"):
        log.append_barrier(CheckpointId(1))
    with pytest.raises(BrokenLog, match="after the end"):
        log.append_end()


def test_a_barrier_is_known_until_it_is_forgotten() -> None:
    log = ChannelLog("a")
    for checkpoint in (3, 5):
        log.append_barrier(CheckpointId(checkpoint))
    log.drop_below(2)

    assert log.barrier_at(CheckpointId(5)) == 1
    assert [log.first_barrier_behind(CheckpointId(released)) for released in (2, 3, 5)] == [0, 1, None]
    log.forget_barriers(CheckpointId(3))
    assert (log.barrier_at(CheckpointId(3)), log.barrier_at(CheckpointId(5))) == (None, 1)
