"""If each partition is in order of event time, no row is late, however far the partitions are apart."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from hypothesis import given
from hypothesis import strategies as st

from streamjob.protocol.event_time.partition_times import PartitionTimes

DELAY = 1
BACKLOG = st.dictionaries(st.integers(0, 3), st.lists(st.integers(-50, 50), min_size=1, max_size=12), min_size=1)
READS = st.lists(st.dictionaries(st.integers(0, 3), st.integers(1, 4)), min_size=1, max_size=30)


class Source:
    """A source whose partitions each are in order, read in batches."""

    def __init__(self, backlog: Mapping[int, Collection[int]]) -> None:
        self.left = {partition: sorted(times) for partition, times in backlog.items()}
        self.watermark = -1000
        self.times: PartitionTimes[int] = PartitionTimes({}, None)

    def read(self, counts: Mapping[int, int], *, bounded: bool) -> None:
        """Read the next rows of some partitions; none may be behind the watermark of the batch before."""
        seen = {}
        for partition, left in self.left.items():
            rows, self.left[partition] = left[: counts.get(partition, 0)], left[counts.get(partition, 0) :]
            assert all(time > self.watermark for time in rows)
            if rows:
                seen[partition] = rows[-1] - DELAY
        ended = [partition for partition, left in self.left.items() if bounded and not left]
        self.times.note(seen, self.left.keys(), ended, 0.0)
        least = self.times.watermark(0.0)
        self.watermark = self.watermark if least is None else max(self.watermark, least)

    def restart(self) -> None:
        """Go on with what a snapshot keeps."""
        self.times = PartitionTimes(self.times.watermarks, None)


@given(backlog=BACKLOG, reads=READS, restarts=st.sets(st.integers(0, 29)), bounded=st.booleans())
def test_no_row_of_partitions_in_order_is_late_across_restarts(
    backlog: Mapping[int, Collection[int]], reads: list[dict[int, int]], restarts: set[int], *, bounded: bool
) -> None:
    source = Source(backlog)
    for number, counts in enumerate(reads):
        source.read(counts, bounded=bounded)
        if number in restarts:
            source.restart()


@given(backlog=BACKLOG, bounded=st.booleans())
def test_behind_the_last_row_the_watermark_is_that_of_the_slowest_or_at_the_end_of_the_fastest_partition(
    backlog: Mapping[int, Collection[int]], *, bounded: bool
) -> None:
    source = Source(backlog)
    source.read(dict.fromkeys(backlog, 100), bounded=bounded)

    last = [max(times) - DELAY for times in backlog.values()]
    assert source.watermark == (max(last) if bounded else min(last))
