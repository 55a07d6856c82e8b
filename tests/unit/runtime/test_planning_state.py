"""Spark's refusals of a query over stored state: which are about the state."""

from __future__ import annotations

import pytest

from streamjob_runtime.chain.query_planning import tells_of_state


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
