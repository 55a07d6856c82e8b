"""How long a cached log is used."""

from __future__ import annotations

from tests.models.clocks import SettableClock

from streamjob_operator.decisions.values.observation import DriverPod, PodPhase, StoredLog
from streamjob_operator.storage.log_cache import LogCache

PLACE = "s3://bucket/a"
LOG = StoredLog(attempt=3)
ENDED = DriverPod(name="orders-driver-3", attempt=3, uid="p3", phase=PodPhase.SUCCEEDED, created=0)
LIVE = DriverPod(name="orders-driver-4", attempt=4, uid="p4", phase=PodPhase.PENDING, created=0)


def test_a_log_that_nobody_writes_to_is_read_once_in_a_while() -> None:
    clock = SettableClock(100.0)
    logs = LogCache(10.0, clock)
    logs.keep("u1", PLACE, (ENDED,), LOG)

    clock.now += 9.9
    assert logs.find("u1", PLACE, (ENDED,)) is LOG
    clock.now += 0.1
    assert logs.find("u1", PLACE, (ENDED,)) is None


def test_the_log_of_a_driver_that_may_live_is_read_every_time() -> None:
    logs = LogCache(10.0, SettableClock(100.0))
    logs.keep("u1", PLACE, (ENDED,), LOG)
    logs.keep("u1", PLACE, (ENDED, LIVE), LOG)

    assert logs.find("u1", PLACE, (ENDED, LIVE)) is None
    assert logs.find("u1", PLACE, (ENDED,)) is None


def test_behind_another_driver_or_in_another_place_a_log_is_another_one() -> None:
    logs = LogCache(10.0, SettableClock(100.0))
    logs.keep("u1", PLACE, (), LOG)

    assert logs.find("u1", PLACE, (ENDED,)) is None
    assert logs.find("u1", PLACE, (LIVE,)) is None
    assert logs.find("u1", "s3://bucket/b", ()) is None
    assert logs.find("u2", PLACE, ()) is None
    assert logs.find("u1", PLACE, ()) is LOG
