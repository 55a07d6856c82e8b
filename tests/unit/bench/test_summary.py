"""The evaluation of the benchmark's measurements."""

from __future__ import annotations

import pytest
from bench.compare import batches_between, used_between
from bench.increments import fresh_files, is_of_snapshot
from bench.model import (
    CheckpointRun,
    Circumstances,
    Comparison,
    Increment,
    Increments,
    Recoveries,
    Recovery,
    Results,
    Run,
)
from bench.object_store import traffic
from bench.report import cost_goals, render
from bench.summary import growths, paired, quantile

from streamjob.snapshot.manifest import FileRef

WHERE = Circumstances(command="make bench", begun="then", ended="now", machine="2 × CPU", versions={"Spark": "4.3.0"})


def run(side: str, number: int, cpu: float, requests: int = 0) -> Run:
    return Run(
        workload="windows",
        side=side,
        round=number,
        records=2_000_000,
        rows=1000,
        wall=10.0,
        user=cpu,
        system=0.0,
        load_before=1.0,
        load_after=2.0,
        batches_ms=(100.0, 200.0),
        requests={"PutObject": requests} if requests else {},
        checkpoints=(CheckpointRun(id=1, seconds=0.5, state_bytes=1000),) if side == "d" else (),
    )


def increment(share: float, written: int, of_snapshot: int = 0) -> Increment:
    return Increment(
        keys=1000,
        share=share,
        changed_bytes=1000,
        checkpointed_bytes=written,
        snapshot_bytes=of_snapshot,
        state_bytes=10**6,
        seconds=1.0,
    )


def test_a_quantile_is_a_value_that_was_measured() -> None:
    values = [5.0, 1.0, 4.0, 2.0, 3.0]

    assert [quantile(values, share) for share in (0.0, 0.5, 0.99, 1.0)] == [1.0, 3.0, 5.0, 5.0]


def test_there_is_no_quantile_of_nothing() -> None:
    with pytest.raises(ValueError, match="no values"):
        quantile([], 0.5)


def test_sides_are_compared_within_their_round() -> None:
    # The machine was three times slower in the second round, for both; the third has no pair.
    runs = [run("b", 0, 10), run("d", 0, 11), run("d", 1, 33), run("b", 1, 30), run("b", 2, 1)]

    assert paired(runs, "windows", "d", "b", lambda each: each.cpu) == pytest.approx(1.1)
    assert paired(runs, "windows", "c", "b", lambda each: each.cpu) is None
    assert paired(runs, "pass-through", "d", "b", lambda each: each.cpu) is None


def test_goals_are_judged_by_what_was_measured() -> None:
    runs = [run("a", 0, 20), run("b", 0, 10), run("c", 0, 12, requests=1000), run("d", 0, 10.5, requests=50)]

    assert cost_goals(runs, "windows") == [
        ("CPU of (d) within 3% of (b): +5.0%", False),
        ("CPU of (d) below (a): -47.5%", True),
        ("10 times fewer S3 requests than (c): 20.0 times", True),
    ]


def test_a_batch_lasts_from_commit_to_commit() -> None:
    planned = {0: 10.0, 1: 11.5, 2: 12.1, 3: 20.0}
    committed = {0: 11.0, 1: 12.0, 2: 13.0, 3: 20.5}

    batches = batches_between(planned, committed)

    assert [batch.milliseconds for batch in batches] == pytest.approx([1000, 1000, 1000, 500])
    assert [batch.end for batch in batches] == [11.0, 12.0, 13.0, 20.5]


def test_what_was_used_meanwhile_is_interpolated_between_samples() -> None:
    assert used_between([(0.0, 1.0), (1.0, 2.0), (2.0, 6.0)], 0.5, 1.5) == pytest.approx(2.5)


def test_increments_are_grouped_by_size_and_share() -> None:
    first, second = growths(
        [increment(1.0, 10**6), increment(0.01, 1100), increment(0.01, 5000, 3900), increment(0.01, 1200)]
    )

    assert (first.share, second.share) == (1.0, 0.01)
    assert second.median(lambda each: each.checkpointed_bytes) == 1200
    assert second.amplification == pytest.approx(7300 / 3000)
    assert second.logged == pytest.approx(3400 / 3000)
    assert second.most(lambda each: each.checkpointed_bytes) == 5000


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


def test_the_report_says_which_goals_were_missed() -> None:
    runs = (run("b", 0, 10), run("d", 0, 20))
    kills = tuple(
        Recovery(side=side, round=0, first=8.0, beyond=9.0, published=14.0, load_before=1.0, load_after=1.0)
        for side in ("a", "d")
    )
    results = Results(
        comparison={"windows": Comparison(circumstances=WHERE, keys=100, runs=runs)},
        recovery=Recoveries(circumstances=WHERE, interval=5.0, runs=kills),
        increments=Increments(circumstances=WHERE, payload=1000, runs=(increment(1.0, 10), increment(0.1, 5500, 4000))),
    )

    text = render(results)

    assert "**Provisional**: 1 of at least 5 rounds were run." in text
    assert "pass-through: not measured yet." in text
    assert "- **missed**: CPU of (d) within 3% of (b): +100.0%" in text
    assert "- reached: first new output within 9 s" in text
    assert "- **missed**: published within 13 s" in text
    assert "Logged changes are 1.50 to 1.50 times the changed bytes; RocksDB's files add 4.0 to 4.0 times." in text


def test_a_report_without_measurements_has_no_tables() -> None:
    assert "|" not in render(Results())
