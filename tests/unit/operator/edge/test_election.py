"""The lease is renewed whatever the main loop does, and a main loop that does nothing at all loses it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from tests.unit.operator.edge.fake_cluster import FakeCluster

from streamjob_operator.cluster.api import Cluster
from streamjob_operator.cluster.kinds import LEASE, Kind, Object
from streamjob_operator.machinery.election import Election
from streamjob_operator.settings import LeaseSettings

SETTINGS = LeaseSettings(namespace="system", identity="a", duration=3.0, renew_deadline=1.0, retry=0.01, stuck=60)


class Process:
    """Takes the place of the process: it notes how it was ended."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def exit(self, _code: int) -> None:
        self.ended.set()


class Renewals:
    """Counts the writes of the Lease, which a thread makes."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.count = 0
        self._changed = threading.Condition()
        cluster.changed = self._note

    def _note(self, kind: Kind, _thing: Object) -> None:
        with self._changed:
            self.count += kind == LEASE
            self._changed.notify_all()

    def wait_for_more(self, number: int) -> bool:
        with self._changed:
            wanted = self.count + number
            return self._changed.wait_for(lambda: self.count >= wanted, timeout=30)


def an_election(cluster: FakeCluster, process: Process, settings: LeaseSettings = SETTINGS) -> Election:
    @asynccontextmanager
    async def connected() -> AsyncIterator[Cluster]:
        yield cluster

    return Election(settings, connected, exit_process=process.exit)


def holder(cluster: FakeCluster) -> str:
    return str(cluster.objects[(LEASE, "system", "streamjob-controller")]["spec"]["holderIdentity"])


async def test_the_lease_is_renewed_while_the_main_loop_is_busy() -> None:
    cluster, process = FakeCluster(), Process()
    renewals = Renewals(cluster)
    election = an_election(cluster, process)
    election.start()
    await asyncio.wait_for(election.acquired.wait(), 30)
    # It blocks the loop of this thread.
    assert renewals.wait_for_more(20)
    assert not election.lost.is_set()
    await election.stop()
    assert holder(cluster) == ""
    assert not process.ended.is_set()


async def test_a_process_whose_main_loop_is_stuck_for_long_is_ended() -> None:
    process = Process()
    settings = LeaseSettings(namespace="system", identity="a", duration=3.0, renew_deadline=1.0, retry=0.01, stuck=0.1)
    election = an_election(FakeCluster(), process, settings)
    election.start()
    await asyncio.wait_for(election.acquired.wait(), 30)
    assert process.ended.wait(30)
    await election.stop()


async def test_who_loses_the_lease_to_another_and_does_not_stop_acting_is_ended() -> None:
    cluster, process = FakeCluster(), Process()
    settings = LeaseSettings(namespace="system", identity="a", duration=1.2, renew_deadline=1.0, retry=0.01)
    election = an_election(cluster, process, settings)
    election.start()
    await asyncio.wait_for(election.acquired.wait(), 30)
    lease = cluster.objects[(LEASE, "system", "streamjob-controller")]
    cluster.edit(LEASE, "system", "streamjob-controller", spec=lease["spec"] | {"holderIdentity": "b"})
    await asyncio.wait_for(election.lost.wait(), 30)
    assert await asyncio.to_thread(process.ended.wait, 30)
    await election.stop()
    assert holder(cluster) == "b"


async def test_who_loses_the_lease_and_stops_acting_is_not_ended() -> None:
    cluster, process = FakeCluster(), Process()
    election = an_election(cluster, process)
    election.start()
    await asyncio.wait_for(election.acquired.wait(), 30)
    lease = cluster.objects[(LEASE, "system", "streamjob-controller")]
    cluster.edit(LEASE, "system", "streamjob-controller", spec=lease["spec"] | {"holderIdentity": "b"})
    await asyncio.wait_for(election.lost.wait(), 30)
    election.rest()
    await election.stop()
    assert not process.ended.is_set()


async def test_an_election_that_cannot_be_taken_part_in_is_lost() -> None:
    def connected() -> AbstractAsyncContextManager[Cluster]:
        raise RuntimeError("no cluster")

    process = Process()
    election = Election(SETTINGS, connected, exit_process=process.exit)
    election.start()
    await asyncio.wait_for(election.lost.wait(), 30)
    await election.stop()
    assert not process.ended.is_set()


async def test_who_stands_by_can_be_stopped() -> None:
    cluster, process = FakeCluster(), Process()
    first = an_election(cluster, process)
    second = an_election(cluster, process, LeaseSettings(namespace="system", identity="b"))
    first.start()
    await asyncio.wait_for(first.acquired.wait(), 30)
    second.start()
    await second.stop()
    assert not second.acquired.is_set()
    assert holder(cluster) == "a"
    await first.stop()
