"""The parts of a plain query's checkpoint from which a job can start, on directories written by hand."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest
from tests.unit.runtime.plain_queries import PROVIDER, STORES, WINDOWS, Query, Taker

from streamjob.comparison.rewrite_checks import StateRewrittenWrongly
from streamjob.errors import CannotRestore
from streamjob.job.planning.plan import plan
from streamjob.store import LocalStore
from streamjob_runtime.restoring.from_spark import converting
from streamjob_runtime.restoring.from_spark.errors import (
    IncompleteCheckpoint,
    NoQueryThere,
    NothingCommitted,
    NotOneChain,
    OtherSources,
    OtherState,
    UnknownCheckpoint,
    UnsupportedState,
)
from streamjob_runtime.restoring.from_spark.fetching import Listing
from streamjob_runtime.restoring.from_spark.suitability import places_in
from streamjob_runtime.spark.checkpoint_dir.files import files_for

pytest.importorskip("pyarrow")


@pytest.fixture
def query(tmp_path: Path) -> Query:
    return Query(tmp_path / "query")


@pytest.fixture
def taker(tmp_path: Path) -> Taker:
    (tmp_path / "job").mkdir()
    return Taker(tmp_path / "job")


def test_the_last_committed_batch_becomes_a_savepoint(query: Query, taker: Taker) -> None:
    manifest = taker.take(query.make())

    (chain,) = manifest.chains
    assert (manifest.kind, manifest.id, manifest.graph["maxParallelism"]) == ("savepoint", 0, 2)
    assert (chain.uid, chain.operators, chain.batch, chain.watermark) == ("made", ("a", "made"), 2, 2000)
    assert chain.stateful == ("stateStoreSave",)
    assert [(each.uid, each.position) for each in manifest.sources] == [("a", {"logOffset": 0})]
    assert [(each.uid, each.watermark_ms) for each in chain.inputs] == [("a", 2000)]
    paths = {file.path for file in chain.files}
    assert {"metadata", "offsets/1", "offsets/2", "commits/2", "sources/0/0", "state/0/1/SSTs/3.sst"} <= paths
    assert not [path for path in paths if "/1.sst" in path or "/2.sst" in path or path.endswith(".crc")]
    assert not [path for path in paths if path.endswith("/3.zip")]


def test_state_without_ids_is_named_in_the_commit(query: Query, taker: Taker, tmp_path: Path) -> None:
    manifest = taker.take(query.make("symmetricHashJoin", STORES), sql=None)

    store = LocalStore(next((tmp_path / "job" / "root" / "savepoints").iterdir()))
    for file in manifest.chains[0].files:
        target = tmp_path / "restored" / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(store.get_range(file.object, file.offset, file.length))  # type: ignore[arg-type]
    assert set(files_for(tmp_path / "restored", manifest.chains[0].batch)) == {
        file.path for file in manifest.chains[0].files
    }
    commit = json.loads((tmp_path / "restored" / "commits" / "2").read_text().partition("\n")[2])
    ids = commit["stateUniqueIds"]["0"]
    assert [len(each) for each in ids] == [4, 4]
    assert commit["nextBatchWatermarkMs"] == 2000


def test_a_start_that_is_repeated_leaves_one_savepoint(query: Query, taker: Taker, tmp_path: Path) -> None:
    query.make()
    assert taker.take(query) == taker.take(query)
    assert [each.name for each in (tmp_path / "job" / "root" / "savepoints").iterdir()] == [
        "departures-0-spark-01234567-2"
    ]


def test_the_querys_checkpoint_is_only_read(query: Query, taker: Taker) -> None:
    query.make()
    before = {file: file.stat().st_mtime_ns for file in query.root.rglob("*")}
    taker.take(query)

    assert {file: file.stat().st_mtime_ns for file in query.root.rglob("*")} == before


def test_a_batch_that_was_planned_and_not_committed_is_left_out_and_told(
    query: Query, taker: Taker, caplog: pytest.LogCaptureFixture
) -> None:
    query.make().plan(3)
    for store in query.stores(("default",)):
        query.snapshot(store, 4)
    with caplog.at_level(logging.WARNING, "streamjob"):
        (chain,) = taker.take(query).chains

    assert chain.batch == 2
    assert not [file.path for file in chain.files if file.path in ("offsets/3", "state/0/0/SSTs/4.sst")]
    assert "planned batch 3" in caplog.text


def test_a_query_without_state_leaves_the_partitions_to_the_job(query: Query, taker: Taker) -> None:
    manifest = taker.take(query.make(None), sql="SELECT k FROM a", maxParallelism=6)

    assert manifest.graph["maxParallelism"] == 6


def refusal(query: Query | str, taker: Taker, cause: type[CannotRestore], message: str, **job: Any) -> str:
    """Take over, which must be refused before anything is written; return what to do."""
    with pytest.raises(cause, match=message) as error:
        taker.take(query, **job)
    assert not (taker.directory / "root").exists()
    return error.value.fix


def test_a_place_without_a_query_is_refused(query: Query, taker: Taker) -> None:
    query.write("part-0.parquet", "")
    assert "checkpointLocation" in refusal(
        query, taker, NoQueryThere, "not a checkpoint of a Structured Streaming query"
    )


def test_a_query_that_has_committed_nothing_is_refused(query: Query, taker: Taker) -> None:
    query.write("metadata", '{"id":"x"}')
    query.plan(0)
    assert "--from none" in refusal(query, taker, NothingCommitted, "has committed no batch")


def test_a_job_of_several_chains_is_refused(query: Query, taker: Taker) -> None:
    sinks = [{"name": f"out{n}", "input": each, "format": "noop"} for n, each in enumerate(("made", "more"))]
    operators = [
        {"name": "made", "inputs": ["a"], "sql": WINDOWS},
        {"name": "more", "inputs": ["made"], "sql": "SELECT k FROM made"},
    ]
    refusal(query.make(), taker, NotOneChain, "the job runs as 2", operators=operators, sinks=sinks)


TWO: dict[str, Any] = {
    "operators": [
        {"name": "made", "inputs": ["a"], "sql": WINDOWS},
        {"name": "more", "inputs": ["b"], "sql": WINDOWS.replace("FROM a", "FROM b")},
    ],
    "sinks": [{"name": f"to-{each}", "input": each, "format": "noop"} for each in ("made", "more")],
    "inputs": 2,
}
"""A job of two chains."""


@pytest.fixture
def queries(tmp_path: Path) -> str:
    """Two queries, one for each chain of TWO."""
    Query(tmp_path / "query").make()
    Query(tmp_path / "other", reads=["b"]).make()
    return f"more={tmp_path / 'other'},made={tmp_path / 'query'}"


def test_each_query_becomes_the_chain_of_its_name(queries: str, taker: Taker) -> None:
    manifest = taker.take(queries, **TWO)

    assert [(each.uid, each.operators, each.batch) for each in manifest.chains] == [
        ("made", ("a", "made"), 2),
        ("more", ("b", "more"), 2),
    ]
    assert [(each.uid, each.position) for each in manifest.sources] == [
        ("a", {"logOffset": 0}),
        ("b", {"logOffset": 0}),
    ]
    assert re.fullmatch("spark-[0-9a-f]{16}", str(manifest.graph["continues"]))


def test_a_checkpoint_is_named_for_each_chain_and_for_no_other(queries: str, taker: Taker, tmp_path: Path) -> None:
    made, more = f"made={tmp_path / 'query'}", f"more={tmp_path / 'other'}"
    for named in ("", str(tmp_path / "query"), made, f"less={tmp_path / 'query'},{more}"):
        refusal(named, taker, NotOneChain, "the job runs as 2: made, more", **TWO)
    for named in (f"{queries},{more}", f"{made},more={tmp_path / 'query'}"):
        refusal(named, taker, NotOneChain, "names a chain or a checkpoint twice", **TWO)


def test_a_path_may_look_like_the_name_of_a_chain(taker: Taker) -> None:
    one, two = plan(taker.loaded().spec), plan(taker.loaded(**TWO).spec)
    assert places_in("spark:env=prod/query,day=1", one) == {"": "env=prod/query,day=1"}
    assert places_in("spark:more=s3://b/x,day=1/q,made=y=2", two) == {"made": "y=2", "more": "s3://b/x,day=1/q"}


def test_queries_with_other_numbers_of_partitions_are_refused(queries: str, taker: Taker, tmp_path: Path) -> None:
    other = Query(tmp_path / "other", reads=["b"])
    other.conf["spark.sql.shuffle.partitions"] = "1"
    other.make()
    refusal(queries, taker, UnsupportedState, "have 1 and 2 state partitions", **TWO)


def test_chains_that_read_each_other_are_no_queries(query: Query, taker: Taker) -> None:
    operators = [
        {"name": "made", "inputs": ["a"], "sql": WINDOWS},
        {"name": "more", "inputs": ["made"], "sql": "SELECT k FROM made"},
    ]
    place = query.make().root
    job = {**TWO, "operators": operators, "inputs": 1}
    refusal(f"made={place},more={place.parent}", taker, NotOneChain, "Chain more of the job reads chain made", **job)


def test_other_sources_are_refused(query: Query, taker: Taker) -> None:
    refusal(query.make(), taker, OtherSources, "has 1 sources, and the job has 2", sql=None, inputs=2)
    query.reads = ["elsewhere"]
    refusal(query.make(), taker, OtherSources, "has read file:.*/job/elsewhere/0.json, and the job's sources do not")
    query.sources = ['{"topic":{"0":12}}']
    refusal(query.make(), taker, OtherSources, "has read topic, and the job's sources do not")


def test_sources_are_told_apart_by_what_has_been_read(query: Query, taker: Taker) -> None:
    query.sources, query.reads = ['{"logOffset":0}', "-"], ["b", "a"]

    manifest = taker.take(query.make("symmetricHashJoin", STORES), sql=None, inputs=2)

    (chain,) = manifest.chains
    assert [each.uid for each in chain.inputs] == ["b", "a"]
    assert {each.uid: each.position for each in manifest.sources} == {"a": None, "b": {"logOffset": 0}}


def test_other_state_is_refused(query: Query, taker: Taker) -> None:
    refusal(query.make("dedupe"), taker, OtherState, "1 × dedupe, and .* 1 × aggregation")


@pytest.mark.parametrize(
    ("changed", "message", "fix"),
    [
        ({"spark.sql.streaming.stateStore.providerClass": "x.OwnProvider"}, "OwnProvider", PROVIDER),
        ({"spark.sql.streaming.join.stateFormatVersion": "4"}, "format 4", "stateFormatVersion=2"),
        ({"spark.sql.shuffle.partitions": ""}, "how many state partitions", "--from none"),
    ],
)
def test_state_that_is_kept_in_another_way_is_refused_with_what_to_do(
    query: Query, taker: Taker, changed: dict[str, str], message: str, fix: str
) -> None:
    query.conf |= changed
    assert fix in refusal(query.make(), taker, UnsupportedState, message)


def test_state_of_column_families_that_ends_with_a_changelog_is_refused_with_what_to_do(
    query: Query, taker: Taker
) -> None:
    query.make("transformWithStateExec")
    (query.root / "state/0/1/3.zip").unlink()
    query.write("state/0/1/3.changelog", "changes")
    assert "changelogCheckpointing.enabled=false" in refusal(
        query, taker, UnsupportedState, "transformWithStateExec 0 .* has no snapshot", sql=None
    )


def test_a_version_of_the_default_store_is_its_last_snapshot_and_the_changes_since(query: Query) -> None:
    listing = Listing(entry.key for entry in LocalStore(query.in_default_store().root).list(""))

    assert listing.version("state/0/1", 4, "x") == [
        f"state/0/1/{name}" for name in ("4.delta", "3.delta", "2.snapshot")
    ]
    assert listing.version("state/0/1", 1, "x") == ["state/0/1/1.delta"]


@pytest.mark.parametrize("missing", ["3.delta", "2.snapshot"])
def test_a_checkpoint_without_changes_of_its_state_is_refused(query: Query, taker: Taker, missing: str) -> None:
    query.in_default_store()
    for name in (missing, "2.delta"):
        (query.root / "state/0/1" / name).unlink()

    number = missing.partition(".")[0]
    assert "copy it again" in refusal(query, taker, IncompleteCheckpoint, f"there is no state/0/1/{number}.zip")


def test_a_copy_of_state_that_differs_from_its_original_is_refused(
    query: Query, taker: Taker, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = Mock()
    java.StateCopy.copy.return_value = [3, 70, 3, 71]
    monkeypatch.setattr(converting, "our_java", lambda spark: java)
    monkeypatch.setattr(converting, "java_session", lambda spark: None)
    taker.spark = MagicMock()
    taker.spark.return_value.newSession.return_value.sparkContext.defaultParallelism = 2

    message = "store default of partition 0 had 3 rows with the checksum 70, and has 3 with 71"
    assert "as it was" in refusal(query.in_default_store(), taker, StateRewrittenWrongly, message)


def test_a_file_of_an_unknown_form_is_refused(query: Query, taker: Taker) -> None:
    query.make().write("offsets/2", "v9\n{}")
    refusal(query, taker, UnknownCheckpoint, "unknown version 'v9'")


def test_a_checkpoint_without_a_table_of_its_state_is_refused(query: Query, taker: Taker) -> None:
    query.make()
    (query.root / "state/0/1/SSTs/3.sst").unlink()

    assert "copy it again" in refusal(query, taker, IncompleteCheckpoint, "there is no state/0/1/SSTs/3.sst")


def test_a_place_that_is_empty_is_said_to_be_empty(query: Query, taker: Taker) -> None:
    assert "checkpointLocation" in refusal(query, taker, NoQueryThere, "There is nothing at file:.*/query/")
