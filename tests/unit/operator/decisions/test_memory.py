"""Decisions survive exactly in the status."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamjob_operator.decisions.values.kept import read, written
from streamjob_operator.decisions.values.memory import Memory, Stop, Trial, memory_of
from streamjob_operator.resources.status import (
    LifecycleState,
    Nonces,
    RequestedSnapshot,
    Restore,
    StreamJobStatus,
    TakenSavepoint,
    TriggerPurpose,
)

times = st.integers(1, 4_000_000_000).map(float)
names = st.sampled_from(["a", "b", "job-1", "s3://bucket/savepoints/1"])
"""A memory has up to 30 names: a text of random characters for each took most of the time."""
numbers = st.integers(0, 1_000_000)
stops = st.builds(
    Stop,
    purpose=st.sampled_from(list(TriggerPurpose)),
    mode=st.sampled_from(["savepoint", "last-state", "stateless"]),
    trigger_id=names,
    attempt=numbers,
    since=times,
    revision=st.none() | names,
    failures=numbers,
    next_try=st.none() | times,
    silent_since=st.none() | times,
    failure=st.none() | names,
)
trials = st.builds(Trial, revision=names, since=times, next_try=times, rejections=numbers, message=names)
nonces = st.none() | st.integers()
memories = st.builds(
    Memory,
    lifecycle=st.sampled_from(list(LifecycleState)),
    since=times,
    attempt=numbers,
    decided=times,
    driver=st.none() | names,
    revision=st.none() | names,
    first_attempt=numbers,
    revision_since=times,
    stable_revision=st.none() | names,
    failed_revision=st.none() | names,
    restore=st.builds(Restore, source=names, required=st.booleans(), first_attempt=numbers),
    completed_attempt=st.none(),
    stop=st.none() | stops,
    trials=st.lists(trials, max_size=2).map(tuple),
    failures=numbers,
    last_failure=st.none() | times,
    next_restart=st.none() | times,
    failure=st.none() | names,
    failure_reason=st.none() | names,
    nonces=st.builds(Nonces, savepoint_trigger=nonces, checkpoint_trigger=nonces, savepoint_redeploy=nonces),
    requests=st.lists(st.builds(RequestedSnapshot, name=names), max_size=3).map(tuple),
    recordings=st.lists(st.builds(TakenSavepoint, name=names, attempt=numbers, path=st.none() | names), max_size=2).map(
        tuple
    ),
    last_scheduled=st.none() | times,
)


@settings(deadline=None)
@given(memories)
def test_what_is_remembered_is_read_back_from_the_stored_status(memory: Memory) -> None:
    stored = written(memory, StreamJobStatus()).to_dict()

    assert memory_of(StreamJobStatus.model_validate(stored)) == memory


@settings(deadline=None)
@given(memories, memories)
def test_what_was_remembered_before_leaves_no_trace(before: Memory, after: Memory) -> None:
    reported = StreamJobStatus(observed_generation=3, replicas=2)

    assert written(after, written(before, reported)) == written(after, reported)


def test_a_remembered_field_without_a_place_is_a_defect() -> None:
    @dataclass
    class Forgetful:
        forgotten: int = 0

    with pytest.raises(TypeError, match=r"Forgetful\.forgotten names no place: annotate it with Kept"):
        read(Forgetful, StreamJobStatus())


def test_a_stop_of_an_older_controller_has_the_mode_that_its_savepoint_tells() -> None:
    stop = {"triggerId": "one", "purpose": "Upgrade", "attempt": 3, "started": "2026-03-01T09:00:00Z"}
    plans = [{"stop": {**stop, "savepoint": savepoint}, "pendingRevision": "b"} for savepoint in (True, False)]

    stops = [memory_of(StreamJobStatus.model_validate({"reconciliation": plan})).stop for plan in plans]

    assert [each and (each.mode, each.revision) for each in stops] == [("savepoint", "b"), ("last-state", "b")]
