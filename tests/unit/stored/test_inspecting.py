"""State stores and data in flight of stored snapshots, without Spark, through the command line."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.stored.job import Job, Run, damage, lines
from tests.unit.stored.states import join, metadata, with_state

from streamjob.ids import ChainUid, CheckpointId
from streamjob.snapshot.manifest import ChannelEntry, ChannelSegment, ChannelState, EntryKind, OperatorState

GRAPH = {
    "operators": [
        {"name": name, "uid": name, "inputs": [{"from": read, "feedback": False}], "python": "module:function"}
        for name, read in (("first", "flights"), ("second", "first"))
    ]
}


def test_stores_are_shown_with_their_sizes(job: Job, run: Run) -> None:
    with_state(job, 4, join())

    (shown,) = lines(run("inspect", job.location, "--json"))
    assert (shown["id"], shown["chains"][0]["files"]) == (4, 6)
    (operator,) = shown["state"]
    assert (operator["chain"], operator["operatorId"], operator["operatorName"]) == ("report", 0, "symmetricHashJoin")
    assert operator["stores"] == [
        {"name": "left-keys", "partitions": 2, "files": 2, "bytes": 8},
        {"name": "right-keys", "partitions": 2, "files": 3, "bytes": 10},
    ]
    table = run("inspect", job.location, 4).stdout
    assert "symmetricHashJoin" in table
    assert "right-keys" in table


def test_the_newest_description_up_to_the_batch_counts(job: Job, run: Run) -> None:
    variables = {"timeMode": "EventTime", "stateVariables": [{"stateName": "n", "stateVariableType": "ValueState"}]}
    files = {
        "state/0/_metadata/v2/0": metadata(0, "transformWithStateExec", "default", properties={"timeMode": "NoTime"}),
        "state/0/_metadata/v2/7": metadata(0, "transformWithStateExec", "default", properties=variables),
        "state/0/_metadata/v2/8": b"of a batch behind the cut",
        "state/0/_stateSchema/default/0_x": b"schema",
        "state/0/1/3_a.changelog": b"123",
    }
    with_state(job, 4, files)

    (shown,) = lines(run("inspect", job.location, "--json"))
    (operator,) = shown["state"]
    assert (operator["variables"], operator["timers"]) == ({"n": "ValueState"}, True)
    assert operator["stores"] == [{"name": "default", "partitions": 2, "files": 1, "bytes": 3}]
    assert "ValueState n" in run("inspect", job.location).stdout


def test_a_snapshot_without_state_shows_the_rest(job: Job, run: Run) -> None:
    (shown,) = lines(run("inspect", job.location, 3, "--json"))

    assert shown["state"] == []
    assert "2013-01-01" in run("inspect", job.location, 3).stdout


def test_it_is_said_where_it_cannot_be_told_whose_state_it_is(job: Job, run: Run) -> None:
    chain = job.manifest(4, "checkpoint", job.upload(**join())).chains[0]
    both = chain.model_copy(update={"operators": ("flights", "first", "second")})
    with_state(job, 4, join(), graph=GRAPH, chains=(both,))

    (shown,) = lines(run("inspect", job.location, "--json"))
    assert shown["state"][0]["uids"] == ["second", "first"]
    assert "symmetricHashJoin 0 of chain 'report' is of second or first" in run("inspect", job.location).stdout


def test_what_is_in_flight_is_counted(job: Job, run: Run) -> None:
    segment = ChannelSegment(path="channels/report/s1", object="shared/x", length=10, sha256="0", records=7)
    entries = (
        ChannelEntry(index=3, kind=EntryKind.DATA, segments=(segment,)),
        ChannelEntry(index=4, kind=EntryKind.BARRIER, barrier=CheckpointId(4)),
    )
    channel = ChannelState(source=ChainUid("report"), target=ChainUid("other"), consumed=3, next=5, entries=entries)
    with_state(job, 4, {}, channels=(channel,))

    (shown,) = lines(run("inspect", job.location, "--json"))
    (found,) = shown["channels"]
    assert (found["from"], found["entries"], found["records"], found["bytes"]) == ("report", 2, 7, 10)

    result = run("inspect", job.location, "--channel", "report:nobody")
    assert result.exit_code == 2
    assert "there are report:other" in result.output


@pytest.mark.parametrize("content", [b"v1\nnot json", b"v1\n[]", b"v1\n{}", b"v1"])
def test_a_description_of_an_unknown_form_is_an_error_that_names_it(job: Job, run: Run, content: bytes) -> None:
    with_state(job, 4, {"state/0/_metadata/metadata": content})
    result = run("inspect", job.location)

    assert result.exit_code == 3
    assert "checkpoint 4: " in result.output
    assert "known form" in result.output


@pytest.mark.parametrize(("content", "message"), [(b"x" * 2000, "not what was uploaded"), (None, "cannot be read")])
def test_a_damaged_description_is_an_error_that_names_it(
    job: Job, run: Run, content: bytes | None, message: str
) -> None:
    with_state(job, 4, join())
    damage(job.own_object(4), content)
    result = run("inspect", job.location)

    assert result.exit_code == 3
    assert "state/0/_metadata/metadata" in result.output
    assert message in result.output


def test_a_snapshot_without_a_manifest_cannot_be_inspected(job: Job, run: Run) -> None:
    job.path("checkpoints/1-2/manifest.json").write_text("{}")
    result = run("inspect", job.location, 2)

    assert result.exit_code == 3
    assert "it has no formatVersion" in result.output


def test_a_query_needs_something_to_be_about(job: Job, run: Run) -> None:
    result = run("inspect", job.location, "--sql", "SELECT 1")

    assert result.exit_code == 2
    assert "--operator" in result.output


def test_an_operator_without_state_is_refused_and_those_with_state_are_named(job: Job, run: Run) -> None:
    states = tuple(
        OperatorState.model_validate({"uid": uid, "chain": "report", "finished": uid == "done"})
        for uid in ("delays", "flights", "done")
    )
    with_state(
        job, 4, join(), graph={"operators": [{"name": "delays", "uid": "delays", "inputs": []}]}, operators=states
    )

    for uid, message in (
        ("nobody", "knows no operator 'nobody'"),
        ("flights", "'flights' has no state"),
        ("done", "'done' has finished"),
    ):
        result = run("inspect", job.location, "--operator", uid)
        assert result.exit_code == 2
        assert message in result.output
        assert "state is there of delays" in result.output


def test_rows_need_the_runtime_extra(job: Job, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    found = importlib.import_module

    def without_spark(name: str, package: str | None = None) -> Any:
        if name == "pyspark":
            raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")
        return found(name, package)

    monkeypatch.setattr("streamjob.runtime.import_module", without_spark)
    with_state(job, 4, join(), graph={"operators": [{"name": "delays", "uid": "delays", "inputs": []}]})
    result = run("inspect", job.location, "--operator", "delays")

    assert result.exit_code == 2
    assert "streamjob[runtime]" in result.output


def test_inspecting_changes_nothing_in_the_store(job: Job, run: Run) -> None:
    with_state(job, 4, join())
    before = job.objects()

    assert run("inspect", job.location).exit_code == 0
    assert job.objects() == before
