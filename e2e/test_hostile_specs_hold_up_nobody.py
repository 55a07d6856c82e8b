"""Three hundred hostile specs next to twenty healthy jobs: each gets a status, no job waits, and all can be deleted."""

from __future__ import annotations

import asyncio
import os
import sys
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from e2e.harness.cluster import Cluster, Where
from e2e.harness.controller import ControllerProcess
from e2e.harness.hostile import GOOD, hostile

from streamjob_operator.cluster.api import KubernetesCluster, NotFound, Refused, connect
from streamjob_operator.cluster.kinds import LEASE, STREAM_JOB, Object

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

HOSTILE, HEALTHY = 300, 20
LEASE_NAME = "controller"
LONGEST_WAIT = 10.0
_HEALTHY = {"kind-of-job": "healthy"}


@dataclass
class Bare:
    """A namespace without anything in it, as far as a controller's process asks."""

    name: str
    image: str = "none"


@pytest.fixture
def bare(cluster: Cluster) -> Iterator[Bare]:
    found = Bare(f"e2e-{uuid.uuid4().hex[:8]}")
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": found.name}})
    yield found
    cluster.delete(Where("Namespace", found.name))


@dataclass
class StreamJobs:
    """The StreamJobs of a namespace.

    Args:
        api: the API server.
        namespace: the namespace.
    """

    api: KubernetesCluster
    namespace: str
    waits: list[float] = field(default_factory=list)
    refused: int = 0

    async def apply(self, name: str, spec: Object, **labels: str) -> None:
        meta = {"namespace": self.namespace, "name": name, "labels": labels}
        thing = {"apiVersion": STREAM_JOB.api_version, "kind": STREAM_JOB.kind, "metadata": meta, "spec": spec}
        await self.api.create(STREAM_JOB, thing)

    async def apply_hostile(self) -> None:
        for number, spec in enumerate(hostile(HOSTILE)):
            try:
                await self.apply(f"hostile-{number}", spec)
            except Refused:
                self.refused += 1

    async def change_healthy(self) -> None:
        """Change one healthy job after the other, and note how long each waits until the controller has seen it."""
        for turn in range(10**6):
            name = f"healthy-{turn % HEALTHY}"
            interval = {"checkpointing": {"interval": f"{10 + turn // HEALTHY % 50}s"}}
            changed = await self.api.patch(STREAM_JOB, self.namespace, name, {"spec": interval})
            since = time.monotonic()
            await self.until_seen(name, changed["metadata"]["generation"])
            self.waits.append(time.monotonic() - since)

    async def until_seen(self, name: str, generation: int) -> None:
        while True:
            thing = await self.api.get(STREAM_JOB, self.namespace, name)
            if (thing.get("status") or {}).get("observedGeneration", 0) >= generation:
                return
            await asyncio.sleep(0.05)

    async def until_told(self) -> None:
        """Wait until every hostile resource has a condition of the controller's."""
        for number in range(HOSTILE):
            while True:
                try:
                    thing = await self.api.get(STREAM_JOB, self.namespace, f"hostile-{number}")
                except NotFound:
                    break
                if any(each["reason"] != "Pending" for each in thing["status"]["conditions"]):
                    break
                await asyncio.sleep(0.2)

    async def delete(self, kind: str, number: int, *, left: int) -> None:
        """Delete all of a kind, and wait until they are gone."""
        for each in range(number):
            await self.api.delete(STREAM_JOB, self.namespace, f"{kind}-{each}")
        while await self.left() > left:
            await asyncio.sleep(0.5)

    async def left(self) -> int:
        return len(await self.api.list(STREAM_JOB, self.namespace, metadata_only=True))

    async def lease(self) -> dict[str, Any]:
        spec: dict[str, Any] = (await self.api.get(LEASE, self.namespace, LEASE_NAME))["spec"]
        return spec


@asynccontextmanager
async def world(namespace: str) -> AsyncIterator[StreamJobs]:
    client = await connect(os.environ)
    try:
        yield StreamJobs(KubernetesCluster(client), namespace)
    finally:
        await client.close()  # type: ignore[no-untyped-call]


def test_hostile_specs_hold_up_no_healthy_job_and_can_be_deleted(
    definitions: None, bare: Bare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Some of the specs are deeper than Python reads by itself.
    sys.setrecursionlimit(50_000)

    async def scenario() -> None:
        async with world(bare.name) as jobs:
            for number in range(HEALTHY):
                await jobs.apply(f"healthy-{number}", GOOD, **_HEALTHY)
            for number in range(HEALTHY):
                await jobs.until_seen(f"healthy-{number}", 1)
            before = await jobs.lease()
            changing = asyncio.create_task(jobs.change_healthy())
            await jobs.apply_hostile()
            await jobs.until_told()
            told = len(jobs.waits)
            await jobs.delete("hostile", HOSTILE, left=HEALTHY)
            changing.cancel()
            after = await jobs.lease()
            # Without a controller their finalizers would keep the namespace.
            await jobs.delete("healthy", HEALTHY, left=0)

            waits = sorted(jobs.waits)
            sys.stdout.write(
                f"{HOSTILE - jobs.refused} hostile specs stored, {jobs.refused} refused by the API server; {len(waits)}"
                f" changes of healthy jobs, {told} before the deletions; waits: median {waits[len(waits) // 2]:.2f} s,"
                f" longest {waits[-1]:.2f} s\n"
            )
            assert jobs.refused <= HOSTILE / 3
            assert waits[-1] <= LONGEST_WAIT
            assert after["holderIdentity"] == before["holderIdentity"] == "only"
            assert after.get("leaseTransitions") == before.get("leaseTransitions")
            assert controller.exit_code is None

    options = ("--own-namespace", bare.name, "--own-name", "only", "--lease-name", LEASE_NAME)
    log = tmp_path / "controller.log"
    controller = ControllerProcess(bare, log, options)  # type: ignore[arg-type]
    try:
        asyncio.run(scenario())
        assert "could not renew its lease" not in log.read_text()
    finally:
        controller.stop()
        sys.stdout.write(log.read_text()[-20_000:])
