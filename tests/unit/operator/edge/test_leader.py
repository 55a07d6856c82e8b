"""The election of the one replica that acts."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from tests.unit.operator.edge.fake_cluster import FakeCluster

from streamjob.errors import InvalidInput
from streamjob_operator.cluster.api import Unavailable
from streamjob_operator.cluster.kinds import LEASE, Object
from streamjob_operator.machinery.leader import Leadership
from streamjob_operator.settings import LeaseSettings


class Time:
    """A clock that sleepers move, and what happens while they sleep."""

    def __init__(self) -> None:
        self.seconds = 100.0
        self.slept = 0
        self.limit = 50

    def clock(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.slept += 1
        assert self.slept < self.limit, "waited for ever"
        self.seconds += seconds
        await asyncio.sleep(0)


def replica(cluster: FakeCluster, identity: str, time: Time) -> Leadership:
    return Leadership(
        cluster,
        LeaseSettings(namespace="system", identity=identity),
        clock=time.clock,
        now=lambda: datetime(2026, 1, 1, tzinfo=UTC),
        sleep=time.sleep,
    )


def lease(cluster: FakeCluster) -> Object:
    return cluster.objects[(LEASE, "system", "streamjob-controller")]


async def test_the_first_replica_leads() -> None:
    cluster = FakeCluster()

    await replica(cluster, "a", Time()).acquire()

    assert lease(cluster)["spec"]["holderIdentity"] == "a"
    assert lease(cluster)["spec"]["leaseDurationSeconds"] == 15


async def test_a_second_replica_waits_while_the_first_renews() -> None:
    cluster, time = FakeCluster(), Time()
    first, second = replica(cluster, "a", time), replica(cluster, "b", Time())
    await first.acquire()
    leading = asyncio.create_task(first.keep())
    waiting = asyncio.create_task(second.acquire())
    while time.slept < 20:
        await asyncio.sleep(0)

    assert not waiting.done()
    assert lease(cluster)["spec"]["holderIdentity"] == "a"
    leading.cancel()
    waiting.cancel()


async def test_a_replica_takes_over_from_one_that_is_silent_for_as_long_as_the_lease_lasts() -> None:
    cluster, time = FakeCluster(), Time()
    await replica(cluster, "a", Time()).acquire()

    await replica(cluster, "b", time).acquire()

    assert lease(cluster)["spec"]["holderIdentity"] == "b"
    assert lease(cluster)["spec"]["leaseTransitions"] == 1
    assert time.seconds - 100 >= 15


async def test_a_released_lease_is_taken_over_without_waiting() -> None:
    cluster, time = FakeCluster(), Time()
    first = replica(cluster, "a", Time())
    await first.acquire()
    await first.release()

    await replica(cluster, "b", time).acquire()

    assert time.slept == 0


async def test_a_leader_that_finds_another_in_its_place_stops_at_once() -> None:
    cluster, time = FakeCluster(), Time()
    first = replica(cluster, "a", time)
    await first.acquire()
    cluster.edit(LEASE, "system", "streamjob-controller", spec={"holderIdentity": "b", "leaseDurationSeconds": 15})

    await first.keep()

    assert time.slept == 1
    assert lease(cluster)["spec"]["holderIdentity"] == "b"


async def test_a_leader_that_cannot_renew_stops_before_another_may_take_over() -> None:
    cluster, time = FakeCluster(), Time()
    first = replica(cluster, "a", time)
    await first.acquire()
    cluster.faults["get"] = [Unavailable("no answer")] * 20

    await first.keep()

    assert 10 <= time.seconds - 100 < 15


async def test_a_short_outage_does_not_end_a_leadership() -> None:
    cluster, time = FakeCluster(), Time()
    first = replica(cluster, "a", time)
    await first.acquire()
    cluster.faults["get"] = [Unavailable("no answer")] * 3
    leading = asyncio.create_task(first.keep())
    while time.slept < 10:
        await asyncio.sleep(0)

    assert not leading.done()
    leading.cancel()


async def test_a_lost_reply_to_a_renewal_is_no_loss_of_the_lease() -> None:
    cluster, time = FakeCluster(), Time()
    first = replica(cluster, "a", time)
    await first.acquire()
    cluster.lost_replies["replace"] = [Unavailable("reset")]
    leading = asyncio.create_task(first.keep())
    while time.slept < 10:
        await asyncio.sleep(0)

    assert not leading.done()
    leading.cancel()


async def test_a_request_that_hangs_does_not_keep_a_leader_in_office() -> None:
    cluster = FakeCluster()
    settings = LeaseSettings(namespace="system", identity="a", duration=0.5, renew_deadline=0.2, retry=0.05)
    first = Leadership(cluster, settings)
    await first.acquire()
    cluster.hangs = True

    await asyncio.wait_for(first.keep(), timeout=30)


async def test_of_many_that_start_together_one_leads() -> None:
    cluster = FakeCluster()
    tasks = [asyncio.create_task(replica(cluster, name, Time()).acquire()) for name in "abcdef"]
    done, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)

    assert len(done) == 1
    for task in waiting:
        task.cancel()


def test_a_lease_that_ends_before_its_holder_gives_up_is_refused() -> None:
    with pytest.raises(InvalidInput, match="cannot be renewed"):
        LeaseSettings(namespace="system", identity="a", duration=10, renew_deadline=10)
