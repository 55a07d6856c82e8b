"""A job's start reports batches that stay staged where the snapshot's file sinks wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamjob.ids import Epoch, OperatorUid
from streamjob.store.base import StoreUnavailable
from streamjob_runtime.sinks.bucket.sink import BucketSink
from streamjob_runtime.sinks.checking.left_staged import left_staged
from streamjob_runtime.sinks.factory import SinkSurroundings


def sink(path: Path | str, uid: str = "report", file_format: str = "parquet", **fields: Any) -> dict[str, Any]:
    return {"name": uid, "uid": uid, "input": "counts", "format": file_format, "options": {"path": str(path)}, **fields}


def stage(place: Path, *batches: str) -> None:
    for batch in batches:
        (place / "_streamjob" / "staged" / batch).mkdir(parents=True)


@pytest.fixture
def surroundings(tmp_path: Path) -> SinkSurroundings:
    return SinkSurroundings("job", "default", Epoch(1), tmp_path, environ={})


def test_each_sink_that_writes_elsewhere_now_names_its_batches(tmp_path: Path, surroundings: SinkSurroundings) -> None:
    stage(tmp_path / "a", "1/0-u", "1/1-v", "2/0-w")
    stage(tmp_path / "b", "4/9-x")
    former = [sink("a"), sink(tmp_path / "b", "gone"), sink("c", "clean")]

    left = dict(left_staged(former, [sink("new")], surroundings))

    assert left.keys() == {"report", "gone"}
    assert (
        f"{tmp_path / 'a'}: _streamjob/staged/1/0-u, _streamjob/staged/1/1-v, _streamjob/staged/2/0-w. "
        in left[OperatorUid("report")]
    )
    assert f"{tmp_path / 'b'}: _streamjob/staged/4/9-x. " in left[OperatorUid("gone")]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a", "b"]


def test_many_batches_are_counted(tmp_path: Path, surroundings: SinkSurroundings) -> None:
    stage(tmp_path / "a", *(f"1/{number}-u" for number in range(8)))

    ((_, told),) = left_staged([sink("a")], [], surroundings)

    assert "_streamjob/staged/1/4-u and 3 more. " in told
    assert "5-u" not in told


def test_a_place_that_one_of_the_jobs_sinks_writes_to_is_its_own_matter(
    tmp_path: Path, surroundings: SinkSurroundings
) -> None:
    stage(tmp_path / "a", "1/0-u")
    (tmp_path / "link").symlink_to(tmp_path / "a")

    assert not list(left_staged([sink("a")], [sink(tmp_path / "link", "renamed")], surroundings))


def test_a_place_that_cannot_be_read_is_named_and_holds_nothing_up(
    tmp_path: Path, surroundings: SinkSurroundings
) -> None:
    (tmp_path / "a").write_text("a file")

    ((_, told),) = left_staged([sink("a")], [], surroundings)

    assert told == f"whether it has staged batches at its former path {tmp_path / 'a'} is not known: Not a directory"


def test_sinks_that_cannot_be_made_any_more_hold_nothing_up(surroundings: SinkSurroundings) -> None:
    former = [
        sink("a", "code", "no.module:Sink", delivery="exactly-once"),
        sink("${env:NOT_SET}", "variable"),
        {"uid": "of a later version"},
    ]

    assert not list(left_staged(former, [], surroundings))


def test_a_bucket_that_does_not_answer_is_reported_and_the_start_goes_on(
    surroundings: SinkSurroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(self: BucketSink) -> tuple[str, ...]:
        raise StoreUnavailable("no server answers")

    monkeypatch.setattr(BucketSink, "staged", unreachable)

    ((_, told),) = left_staged([sink("s3://bucket/a/")], [sink("s3://bucket/b")], surroundings)

    assert told == ("whether it has staged batches at its former path s3://bucket/a is not known: no server answers")
    assert not list(left_staged([sink("s3://bucket/a/")], [sink("s3://bucket/a")], surroundings))
