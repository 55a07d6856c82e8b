"""How the benchmarks count and summarize."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from bench.backpressure import order
from bench.batches import batches_between, used_between
from bench.increments import fresh_files, is_of_snapshot
from bench.object_store import traffic
from bench.tables import interleaved, loads, paired, per_million, quantile

from streamjob.snapshot.manifest import FileRef


class Run(NamedTuple):
    """A run of a side."""

    side: str
    round: int
    cpu: float
    records: int = 1_000_000
    load_before: float = 0.5


def test_a_quantile_is_a_value_that_was_measured() -> None:
    values = [5.0, 1.0, 4.0, 2.0, 3.0]

    assert [quantile(values, share) for share in (0.0, 0.5, 0.99, 1.0)] == [1.0, 3.0, 5.0, 5.0]


def test_there_is_no_quantile_of_nothing() -> None:
    with pytest.raises(ValueError, match="no values"):
        quantile([], 0.5)


def test_sides_are_compared_within_their_round() -> None:
    # The machine was three times slower in the second round, for both; the third has no pair.
    runs = [Run("b", 0, 10), Run("d", 0, 11), Run("d", 1, 33), Run("b", 1, 30), Run("b", 2, 1)]

    assert paired(runs, "d", "b", lambda run: run.cpu) == pytest.approx(1.1)
    assert paired(runs, "c", "b", lambda run: run.cpu) is None


def test_a_further_million_costs_the_difference_of_a_long_and_a_short_run() -> None:
    runs = [Run("fused", 0, 20.0), Run("fused", 0, 35.0, records=6_000_000), Run("fused", 1, 9.0)]

    assert per_million(runs, "fused", lambda run: run.cpu) == {0: 3.0}


def test_a_page_says_how_many_rounds_there_were_and_how_busy_the_machine_was() -> None:
    runs = [Run("a", 0, 1), Run("a", 0, 1, load_before=0.7), Run("a", 1, 1, load_before=2.5)]

    assert interleaved(runs) == "Medians of 2 interleaved rounds."
    assert interleaved(runs[:2]) == "One round."
    assert loads(runs) == "Load average before a run: median 0.7, most 2.5."
    assert loads([]) == ""


def test_an_unaligned_checkpoint_behind_an_aligned_one_comes_in_every_round() -> None:
    modes = list(order(2))

    assert modes[:6] == ["aligned", "unaligned", "switch"] * 2
    assert set(modes[6:]) == {"unaligned"}


def test_a_batch_lasts_from_commit_to_commit() -> None:
    planned = {0: 10.0, 1: 11.5, 2: 12.1, 3: 20.0}
    committed = {0: 11.0, 1: 12.0, 2: 13.0, 3: 20.5}

    batches = batches_between(planned, committed)

    assert [batch.milliseconds for batch in batches] == pytest.approx([1000, 1000, 1000, 500])
    assert [batch.end for batch in batches] == [11.0, 12.0, 13.0, 20.5]


def test_what_was_used_meanwhile_is_interpolated_between_samples() -> None:
    assert used_between([(0.0, 1.0), (1.0, 2.0), (2.0, 6.0)], 0.5, 1.5) == pytest.approx(2.5)


def test_the_files_of_a_snapshot_of_rocksdb_are_told_from_logged_changes() -> None:
    paths = ["state/0/1/7_a.zip", "state/0/1/SSTs/000009-b.sst", "state/0/1/8_c.changelog", "offsets/8", "metadata"]

    assert [path for path in paths if is_of_snapshot(path)] == paths[:2]


def test_only_files_in_new_objects_count_as_written() -> None:
    old, new = (FileRef(path=f"{name}.sst", object=name, length=1, sha256="") for name in ("old", "new"))

    assert fresh_files([old, new], {"old"}) == [new]


def test_requests_and_bytes_are_read_from_the_access_log() -> None:
    line = (
        "test snapshots [20/November/2026:12:40:23 +0000] 127.0.0.1 test LJALTWESXUPV86GM s3_{operation} {key}"
        " /snapshots/{key} {status} - 0 {size} 1 1 - Boto3/1.44.5 ua/2.1 - cNj4h19= SigV4 - AuthHeader"
        " s3.us-east-1.amazonaws.com -"
        " arn:aws:s3:::/snapshots Yes\n"
    )
    log = [
        "log starts 2026-11-20 12:40:23.511694124 +0000 UTC m=+0.044372520\n",
        line.format(operation="PutObject", key="a/b c", status=200, size=1000),
        line.format(operation="PutObject", key="log/1", status=412, size=300),
        line.format(operation="GetObject", key="a", status=200, size=0),
    ]

    found = traffic(log)

    assert found.requests == {"GetObject": 1, "PutObject": 2}
    assert found.put_bytes == 1000
    assert found.total == 3
