"""Decisions survive exactly in the status."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamjob_operator.decisions.memory import Memory, Stop, memory_of, remember
from streamjob_operator.resources.status import (
    LifecycleState,
    Nonces,
    RequestedSnapshot,
    Restore,
    StreamJobStatus,
    TriggerPurpose,
)

times = st.integers(1, 4_000_000_000).map(float)
names = st.text("abc-", min_size=1, max_size=10)
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
    failures=numbers,
    last_failure=st.none() | times,
    next_restart=st.none() | times,
    failure=st.none() | names,
    failure_reason=st.none() | names,
    nonces=st.builds(Nonces, savepoint_trigger=nonces, checkpoint_trigger=nonces, savepoint_redeploy=nonces),
    requests=st.lists(st.builds(RequestedSnapshot, name=names), max_size=3).map(tuple),
    last_scheduled=st.none() | times,
)


@given(memories)
def test_what_is_remembered_is_read_back_from_the_stored_status(memory: Memory) -> None:
    stored = remember(memory, StreamJobStatus()).to_dict()

    assert memory_of(StreamJobStatus.model_validate(stored)) == memory
