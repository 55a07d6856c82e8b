"""Batches are held until the positions at which sources begin are stored."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from streamjob.ids import Epoch
from streamjob.protocol.coordination.triggers import TriggerState
from streamjob.protocol.emissions.cuts import Emissions
from streamjob_runtime.chain.emissions.emission_lock import EmissionLock
from streamjob_runtime.job.first_positions import FirstPositions


@pytest.mark.parametrize(
    ("stopping", "draining", "fails"),
    [
        (False, False, True),
        # The snapshot of the stop has the positions.
        (True, False, False),
        # The snapshot of a drain waits for the chains, which wait for the positions.
        (True, True, True),
        (None, False, False),
    ],
)
def test_an_epoch_ends_if_its_positions_cannot_be_stored_by_another_snapshot(
    stopping: bool | None, draining: bool, fails: bool
) -> None:
    status = SimpleNamespace(state=TriggerState.FAILED, failure="the store is away")
    coordination = SimpleNamespace(
        request=lambda trigger: status, is_stopping=lambda: stopping, is_draining=lambda: draining
    )
    emission = EmissionLock(Emissions([]))
    positions = FirstPositions(Epoch(1), emission, cast(Any, coordination), lambda event: None, lambda: 0.0)

    failure = positions.failure()

    assert (failure is not None) == fails
