"""Base of the sink test kit: the methods that a test class provides, and helpers that drive the sink."""

from __future__ import annotations

import datetime
import itertools
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from streamjob.ids import BatchId, CheckpointId, Epoch, OperatorUid
from streamjob.sink import Sink, SinkContext, Staged, Staging
from streamjob.store.staging import StoreStaging
from streamjob.testing.interception import FILE_SYSTEM_CALLS, Crash, Intercepted, Interception
from streamjob.testing.memory_store import MemoryStore

Row = tuple[Any, ...]

_UID = OperatorUid("conformance")


class SinkHarness:
    """A sink under test. Subclasses may override attributes and methods without an underscore."""

    schema = "id bigint, name string, amount decimal(10,2), ratio double, flag boolean, day date, at timestamp"
    """Columns of the batches; `id` must be the first. Others come from `row`."""

    effects: Sequence[Intercepted] = FILE_SYSTEM_CALLS
    """Functions through which the sink changes the outside world; a crash is simulated before each call."""

    spark: Any
    place: Path
    store: MemoryStore
    """Holds the rows that a sink stages in the store of the job's snapshots."""

    def make_sink(self, place: Path) -> Sink:
        """Return a new sink for a place, not opened."""
        raise NotImplementedError

    def visible_rows(self, place: Path) -> Sequence[Row]:
        """Return the rows that a reader sees at the place, as tuples in the order of `schema`; maybe none.

        `self.spark` is the Spark session.
        """
        raise NotImplementedError

    def options(self, place: Path) -> Mapping[str, str]:
        """Return the sink's options."""
        return {"path": str(place)}

    def consume(self, place: Path) -> None:
        """Remove the visible rows at the place, like a consumer."""
        pytest.skip("the kit's subclass does not say how a consumer removes rows")

    def leftovers(self, place: Path) -> int:
        """Return the number of staged objects at the place."""
        pytest.skip("the kit's subclass does not say what is staged")

    def lose_staged(self, place: Path) -> None:
        """Remove everything that is staged, like an accident. Keep committed rows and the records of them."""
        pytest.skip("the kit's subclass does not say how staged rows are lost")

    def damage_staged(self, place: Path) -> None:
        """Change one bit of what is staged, like a bad disk."""
        pytest.skip("the kit's subclass does not say how staged rows are damaged")

    def row(self, number: int) -> Row:
        """Return the row with a number as its id; some values are null."""
        null = number % 5 == 3
        return (
            number,
            None if null else f"naïve \u2603 {number}",
            None if null else Decimal(number) / 100,
            number / 8,
            None if null else number % 2 == 0,
            datetime.date(2013, 1, 1) + datetime.timedelta(days=number % 365),
            datetime.datetime(2013, 1, 1, 5, 17) + datetime.timedelta(seconds=number),
        )

    def keep(self, place: Path) -> Callable[[], None]:
        """Return a function that restores the current state of the place; this one works for files."""
        kept = place.with_name(f"kept-{uuid4().hex}")
        shutil.copytree(place, kept)

        def bring_back() -> None:
            shutil.rmtree(place)
            shutil.copytree(kept, place)

        return bring_back

    def staging(self, epoch: Epoch) -> Staging:
        """Return the staging in the snapshot store for a sink of the given epoch."""
        return StoreStaging(self.store, _UID, epoch, self.place.with_name(f"scratch-{epoch}"))

    @pytest.fixture(name="spark")
    def spark_fixture(self, streamjob_spark: Any) -> Any:
        """Return the Spark session; override it to use your own."""
        return streamjob_spark

    @pytest.fixture(autouse=True)
    def _place(self, spark: Any, tmp_path: Path) -> None:
        self.spark = spark
        self.place = tmp_path / "place"
        self.store = MemoryStore()

    def _interrupted_commits(self, action: Callable[[Sequence[Staged]], None]) -> Iterator[Sequence[Staged]]:
        """Commit two batches in epoch 1 repeatedly, with the action before each effect in turn.

        After each interrupted commit, yields the batches that were staged.
        """
        sink = self._open(1)
        staged = [self._stage(sink, 0, range(10)), self._stage(sink, 1, range(10, 20))]
        bring_back, objects = self.keep(self.place), dict(self.store.objects)
        for call in itertools.count():
            interception = Interception(self.effects, call, lambda: action(staged))
            try:
                with interception:
                    self._commit(sink, 1, *staged)
            except Crash:
                pass
            except Exception:
                # A superseded process may fail, as long as it does no harm.
                if not interception.fired:
                    raise
            if not interception.fired:
                return
            yield staged
            bring_back()
            self.store.objects = dict(objects)
            sink = self._open(1)

    def _recover(self, staged: Sequence[Staged], epoch: int = 2) -> None:
        """Do what the next owner of the log would do."""
        sink = self._open(epoch)
        self._commit(sink, 1, *staged)
        sink.abort()
        sink.close()

    def _open(self, epoch: int) -> Sink:
        sink = self.make_sink(self.place)
        assert isinstance(sink, Sink)
        options, staging = self.options(self.place), self.staging(Epoch(epoch))
        sink.open(SinkContext("sink-kit", "default", _UID, Epoch(epoch), options, staging))
        return sink

    def _stage(self, sink: Sink, batch: int, numbers: Sequence[int]) -> Staged:
        rows = [self.row(number) for number in numbers]
        return sink.stage(self.spark.createDataFrame(rows, self.schema).coalesce(2), BatchId(batch))

    def _commit(self, sink: Sink, checkpoint: int, *staged: Staged) -> None:
        committables = [each.committable for each in staged if each.committable is not None]
        sink.commit(CheckpointId(checkpoint), committables)

    def _expect(self, numbers: Sequence[int] = ()) -> None:
        expected = sorted(self.row(number) for number in numbers)
        found = sorted((tuple(row) for row in self.visible_rows(self.place)), key=lambda row: row[0])
        assert found == expected

    def _numbers(self) -> list[int]:
        return sorted(row[0] for row in self.visible_rows(self.place))
