"""`streamjob check --from spark:DIRECTORY`: what a start from a plain query would do, told without writing anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.runtime.plain_queries import Query, Taker
from typer.testing import CliRunner

from streamjob.cli.main import app
from streamjob.comparison.verdicts import Comparison
from streamjob.ids import ChainUid, Key, OperatorUid
from streamjob.job.loading.load import LoadedJob
from streamjob.job.planning.plan import plan
from streamjob.protocol.log.records import JobId
from streamjob.store import LocalStore
from streamjob.stored.start_snapshot import Found
from streamjob_runtime.chain.query_planning import tells_of_state
from streamjob_runtime.restoring.from_spark import check_query
from streamjob_runtime.restoring.from_spark.errors import NoQueryThere

pytest.importorskip("pyarrow")


@pytest.fixture
def query(tmp_path: Path) -> Query:
    return Query(tmp_path / "query")


@pytest.fixture
def taker(tmp_path: Path) -> Taker:
    (tmp_path / "job").mkdir()
    return Taker(tmp_path / "job")


def compared(query: Query, loaded: LoadedJob) -> Comparison:
    """Return what is said without Spark."""
    job = JobId("default", "departures")
    uri, found = check_query(f"spark:{query.root}", loaded, plan(loaded.spec), job, False, None, lambda: 5.0)
    assert uri == f"{query.root.as_uri()}/"
    return found


def verdicts(found: Comparison) -> dict[str, tuple[str, str]]:
    return {each.uid: (each.verdict.value, each.why) for each in found.findings}


def test_what_a_start_takes_over_is_told_of_each_part(query: Query, taker: Taker) -> None:
    found = compared(query.make(), taker.loaded())

    assert found.refusals == ()
    assert verdicts(found) == {
        "departures": ("restored", "its state has 2 partitions"),
        "a": ("restored", "it continues from its position"),
        "made": ("restored", "it continues with its state"),
        "out": ("new", "it receives rows from now on"),
    }


def test_another_number_of_partitions_is_told_as_a_rewrite(query: Query, taker: Taker) -> None:
    found = compared(query.make(), taker.loaded(maxParallelism=4))

    assert verdicts(found)["departures"] == ("rewritten", "its state is rewritten from 2 partitions to 4")
    assert found.max_parallelism == 4


def test_state_of_the_default_store_is_told_as_converted_and_is_not_read(
    query: Query, taker: Taker, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = set()

    def download(store: LocalStore, key: Key, target: Path) -> None:
        read.add(key.rpartition(".")[2])
        target.write_bytes(store.get(key))

    monkeypatch.setattr(LocalStore, "download", download)
    query.in_default_store()

    few, more = compared(query, taker.loaded()), compared(query, taker.loaded(maxParallelism=4))

    assert verdicts(few)["departures"] == ("rewritten", "its state has 2 partitions; it is converted to RocksDB")
    assert verdicts(more)["departures"] == (
        "rewritten",
        "its state is rewritten from 2 partitions to 4; it is converted to RocksDB",
    )
    assert verdicts(few)["made"] == ("restored", "it continues with its state")
    assert "metadata" in {each.rpartition("/")[2] for each in read}
    assert not read & {"delta", "snapshot"}


def test_a_source_that_the_query_had_not_read_is_told(query: Query, taker: Taker) -> None:
    query.sources = ["-"]
    assert verdicts(compared(query.make(), taker.loaded()))["a"] == ("restored", "it had not been read")


def test_whether_the_state_fits_is_left_to_spark_also_at_a_start(query: Query, taker: Taker) -> None:
    found = compared(query.make(), taker.loaded())

    assert found.undecided == {ChainUid("made"): "made"}
    assert found.changed == {ChainUid("made")}
    assert (
        compared(Query(query.root.parent / "stateless").make(None), taker.loaded(sql="SELECT k FROM a")).undecided == {}
    )


def test_spark_is_asked_about_descriptions_of_the_state_and_never_gets_the_state(query: Query, taker: Taker) -> None:
    asked: list[dict[str, bytes]] = []

    def examine(_: LoadedJob, found: Found, so_far: Comparison, __: bool, ___: JobId) -> Comparison:
        files = found.manifest.chains[0].files
        located = {file.path: found.locate(file.object) for file in files}
        asked.append({path: store.get(key) for path, (store, key) in located.items()})
        assert {file.path: file.length for file in files} == {path: len(each) for path, each in asked[-1].items()}
        return so_far

    loaded = taker.loaded()
    job = JobId("default", "departures")
    check_query(f"spark:{query.make().root}", loaded, plan(loaded.spec), job, False, examine, lambda: 5.0)

    (files,) = asked
    assert files["state/0/1/_metadata/schema"] == b"schema"
    assert files["state/0/1/SSTs/3.sst"] == b""
    assert "offsets/2" in files


def test_what_is_refused_is_told_of_the_parts_that_it_is_about(query: Query, taker: Taker) -> None:
    elsewhere = compared(Query(query.root.parent / "other", reads=["b"]).make(), taker.loaded())
    other_state = compared(query.make("dedupe"), taker.loaded())

    def refused(found: Comparison) -> dict[OperatorUid, str]:
        return {OperatorUid(each.uid): type(each.refusal).__name__ for each in found.findings}

    assert refused(elsewhere) == {"a": "OtherSources"}
    assert refused(other_state) == {"made": "OtherState"}
    assert [type(each).__name__ for each in other_state.refusals] == ["OtherState"]


def test_a_place_that_holds_no_query_ends_the_check(query: Query, taker: Taker) -> None:
    with pytest.raises(NoQueryThere):
        compared(query, taker.loaded())


def command(query: Query, taker: Taker) -> Any:
    arguments = ["--from", f"spark:{query.root}", "--no-spark", "--json"]
    return CliRunner().invoke(app, ["check", str(taker.directory / "job.yaml"), *arguments])


def test_the_command_prints_an_object_for_each_part_and_writes_nothing(query: Query, taker: Taker) -> None:
    taker.loaded()
    before = {file: file.stat().st_mtime_ns for file in query.make().root.rglob("*")}
    beside = set(taker.directory.rglob("*"))

    done = command(query, taker)

    assert done.exit_code == 0, done.output
    objects = {each["uid"]: each for each in map(json.loads, done.stdout.splitlines())}
    assert {uid: each["verdict"] for uid, each in objects.items()} == {
        "departures": "restored",
        "a": "restored",
        "made": "restored",
        "out": "new",
    }
    assert not objects["made"]["decided"]
    assert {file: file.stat().st_mtime_ns for file in query.root.rglob("*")} == before
    assert set(taker.directory.rglob("*")) == beside


def test_the_command_ends_with_3_where_a_start_would_be_refused(query: Query, taker: Taker) -> None:
    taker.loaded()

    refused, empty = command(query.make("dedupe"), taker), command(Query(query.root / "none"), taker)

    assert refused.exit_code == 3
    assert json.loads(refused.stdout)["cause"] == "OtherState"
    assert empty.exit_code == 3


@pytest.mark.parametrize(
    ("reason", "of_state"),
    [
        ("[STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE] Provided value schema does not match", True),
        ("[STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE] Cannot change rows to ListState", True),
        ("[STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA] Streaming stateful operator name", True),
        ("TransformWithStateInPySpark driver worker exited unexpectedly (crashed)", False),
        ("[STREAMING_PYTHON_RUNNER_INITIALIZATION_TIMEOUT_FAILURE] Streaming Runner initialization failed", False),
    ],
)
def test_only_a_refusal_for_the_state_itself_may_cost_an_operator_its_state(reason: str, of_state: bool) -> None:
    assert tells_of_state(reason) is of_state
