"""The contract of `streamjob.sink.Sink` as tests. Subclass `SinkConformance`, and define how to make and read the sink.

    class TestMySink(SinkConformance):
        def make_sink(self, place):
            return MySink()

        def visible_rows(self, place):
            return self.spark.read.schema(self.schema).parquet(str(place)).collect()

`docs/how-to/write-a-sink.md` has a complete example. Needs pytest and `streamjob[runtime]`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from uuid import uuid4

import pytest

from streamjob.ids import BatchId
from streamjob.sink import Staged, StagedRowsGone
from streamjob.testing.interception import Crash
from streamjob.testing.sink_harness import Row, SinkHarness


class SinkConformance(SinkHarness):
    """Tests that every exactly-once sink must pass; `SinkHarness` documents the methods that a subclass provides."""

    def test_staged_rows_are_invisible(self) -> None:
        sink = self._open(1)
        self._stage(sink, 0, range(10))

        self._expect()

    def test_a_committed_batch_is_visible_once(self) -> None:
        sink = self._open(1)
        self._commit(sink, 1, self._stage(sink, 0, range(10)))

        self._expect(range(10))

    def test_committing_again_changes_nothing(self) -> None:
        sink = self._open(1)
        staged = self._stage(sink, 0, range(10))
        self._commit(sink, 1, staged)
        self._commit(sink, 1, staged)
        self._commit(self._open(2), 1, staged)

        self._expect(range(10))

    def test_a_checkpoint_publishes_all_of_its_batches_and_no_other(self) -> None:
        sink = self._open(1)
        first, second, third = (self._stage(sink, n, range(10 * n, 10 * n + 10)) for n in range(3))
        self._commit(sink, 1, first, second)

        self._expect(range(20))
        self._commit(sink, 2, third)
        self._expect(range(30))

    def test_a_checkpoint_without_data_publishes_nothing(self) -> None:
        sink = self._open(1)
        self._commit(sink, 1)

        self._expect()

    def test_an_empty_batch_publishes_no_row(self) -> None:
        sink = self._open(1)
        empty = self._stage(sink, 0, ())
        full = self._stage(sink, 1, range(3))
        self._commit(sink, 1, empty)

        self._expect()
        self._commit(sink, 2, full)
        self._expect(range(3))

    @pytest.mark.parametrize("rows", [0, 7])
    def test_staging_computes_each_partition_exactly_once(self, rows: int, tmp_path: Path) -> None:
        computed = tmp_path / "computed"
        computed.mkdir()
        numbers = [self.row(number) for number in range(rows)]
        partitions = self.spark.sparkContext.parallelize(numbers, 3).mapPartitionsWithIndex(_noting(computed))
        batch = self.spark.createDataFrame(partitions, self.schema, verifySchema=False)
        sink = self._open(1)
        staged = sink.stage(batch, BatchId(0))

        assert sorted(file.name.partition("-")[0] for file in computed.iterdir()) == ["0", "1", "2"]
        self._commit(sink, 1, staged)
        self._expect(range(rows))

    def test_a_big_batch_is_complete(self) -> None:
        sink = self._open(1)
        model = self.spark.createDataFrame([], self.schema)
        big = self.spark.range(100_000, numPartitions=4).toDF("id").unionByName(model, allowMissingColumns=True)
        self._commit(sink, 1, sink.stage(big, BatchId(0)))

        assert self._numbers() == list(range(100_000))

    def test_a_committable_outlives_json(self) -> None:
        sink = self._open(1)
        staged = self._stage(sink, 0, range(10))
        self._commit(self._open(2), 1, Staged(json.loads(json.dumps(staged.committable))))

        self._expect(range(10))

    def test_what_a_consumer_removed_stays_removed(self) -> None:
        sink = self._open(1)
        staged = self._stage(sink, 0, range(10))
        self._commit(sink, 1, staged)
        self.consume(self.place)
        self._commit(sink, 1, staged)
        self._commit(self._open(2), 1, staged)

        self._expect()

    def test_a_commit_of_staged_rows_that_are_gone_is_refused(self) -> None:
        staged = self._stage(self._open(1), 0, range(10))
        self.lose_staged(self.place)

        for epoch in (2, 3):
            with pytest.raises(StagedRowsGone):
                self._commit(self._open(epoch), 1, staged)
        self._expect()

    def test_a_commit_of_staged_rows_that_are_damaged_is_refused(self) -> None:
        sink = self._open(1)
        staged = self._stage(sink, 0, range(10))
        self.damage_staged(self.place)

        for each in (sink, self._open(2)):
            with pytest.raises(StagedRowsGone):
                self._commit(each, 1, staged)
        self._expect()

    def test_rows_that_were_published_are_not_missed_where_they_were_staged(self) -> None:
        sink = self._open(1)
        published, lost = self._stage(sink, 0, range(10)), self._stage(sink, 1, range(10, 20))
        self._commit(sink, 1, published)
        self.lose_staged(self.place)
        later = self._open(2)
        self._commit(later, 1, published)
        with pytest.raises(StagedRowsGone):
            self._commit(later, 2, lost)

        self._expect(range(10))

    def test_a_commit_that_crashed_anywhere_is_completed_by_the_next_epoch(self) -> None:
        for staged in self._interrupted_commits(_crash):
            self._recover(staged)
            self._expect(range(20))

    def test_a_consumer_between_a_crash_and_the_next_epoch_gets_each_row_once(self) -> None:
        for staged in self._interrupted_commits(_crash):
            taken = self._numbers()
            self.consume(self.place)
            self._recover(staged)
            assert sorted(taken + self._numbers()) == list(range(20))

    def test_a_superseded_process_may_wake_up_anywhere_in_its_commit(self) -> None:
        for _ in self._interrupted_commits(self._recover):
            self._expect(range(20))

    def test_a_superseded_process_recreates_nothing_that_was_consumed(self) -> None:
        def succeed_and_consume(staged: Sequence[Staged]) -> None:
            self._recover(staged)
            self.consume(self.place)

        for _ in self._interrupted_commits(succeed_and_consume):
            self._expect()

    def test_abort_discards_what_earlier_epochs_staged(self) -> None:
        former = self._open(1)
        self._stage(former, 0, range(10))
        later = self._open(2)
        later.abort()
        self._commit(later, 1, self._stage(later, 0, range(10)))

        self._expect(range(10))

    def test_abort_leaves_nothing_staged_behind(self) -> None:
        self._stage(self._open(1), 0, range(10))
        assert self.leftovers(self.place) > 0
        self._open(2).abort()

        assert self.leftovers(self.place) == 0

    def test_commit_leaves_nothing_staged_behind(self) -> None:
        sink = self._open(1)
        self._commit(sink, 1, self._stage(sink, 0, range(10)))

        assert self.leftovers(self.place) == 0

    def test_abort_keeps_what_its_own_epoch_staged(self) -> None:
        sink = self._open(2)
        staged = self._stage(sink, 0, range(10))
        sink.abort()
        self._commit(sink, 1, staged)

        self._expect(range(10))

    def test_a_superseded_process_cannot_discard_what_its_successor_staged(self) -> None:
        former = self._open(1)
        later = self._open(2)
        later.abort()
        staged = self._stage(later, 0, range(10))
        former.abort()
        self._commit(later, 1, staged)

        self._expect(range(10))

    def test_what_a_superseded_process_stages_is_never_visible(self) -> None:
        former = self._open(1)
        later = self._open(2)
        later.abort()
        self._stage(former, 0, range(100, 110))
        staged = self._stage(later, 0, range(10))
        self._commit(later, 1, staged)
        self._recover([staged], epoch=3)

        self._expect(range(10))

    def test_a_batch_that_failed_half_way_is_staged_again_in_the_next_epoch(self) -> None:
        numbers = self.spark.sparkContext.parallelize([self.row(number) for number in range(10)], 2)
        failing = self.spark.createDataFrame(numbers.mapPartitionsWithIndex(_failing), self.schema, verifySchema=False)
        former = self._open(1)
        with pytest.raises(Exception, match="half way"):
            former.stage(failing, BatchId(0))
        later = self._open(2)
        later.abort()
        self._commit(later, 1, self._stage(later, 0, range(10)))

        self._expect(range(10))

    def test_the_next_epoch_publishes_what_completed_before_it_discards_the_rest(self) -> None:
        former = self._open(1)
        covered = self._stage(former, 0, range(10))
        self._stage(former, 1, range(10, 20))
        later = self._open(2)
        self._commit(later, 1, covered)
        later.abort()
        self._commit(later, 2, self._stage(later, 1, range(10, 20)))

        self._expect(range(20))


def _crash(staged: Sequence[Staged]) -> None:
    raise Crash


def _noting(directory: Path) -> Callable[[int, Iterator[Row]], Iterator[Row]]:
    """Return a partition function that leaves a file each time a partition is computed."""

    def note(partition: int, rows: Iterator[Row]) -> Iterator[Row]:
        yield from rows
        (directory / f"{partition}-{uuid4().hex}").touch()

    return note


def _failing(partition: int, rows: Iterator[Row]) -> Iterator[Row]:
    yield from rows
    if partition == 1:
        raise ValueError("half way")
