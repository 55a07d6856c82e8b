"""The page of all jobs over a Kubernetes API in memory that knows tokens and rights."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.unit.operator.edge.fake_cluster import FakeCluster

from streamjob.page.audiences import READ_AUDIENCE, WRITE_AUDIENCE
from streamjob_operator.cluster.driver_api import DriverAddress, Drivers
from streamjob_operator.cluster.events import EventRecorder
from streamjob_operator.cluster.kinds import STREAM_JOB, SUBJECT_ACCESS_REVIEW, TOKEN_REVIEW, Kind, Object
from streamjob_operator.web.actions import Actions
from streamjob_operator.web.board import Board
from streamjob_operator.web.codes import Codes
from streamjob_operator.web.figures import AskedFigures, asking
from streamjob_operator.web.jobs import Jobs
from streamjob_operator.web.proxy import Proxy
from streamjob_operator.web.server import Page, Parts, serve_page
from streamjob_operator.web.viewers import Viewers

NOW = 1_795_390_000.0


@dataclass
class Account:
    """A user: rights as (verb, namespace, name), with `*` for any."""

    name: str
    audiences: tuple[str, ...] = ()
    rights: set[tuple[str, str, str]] = field(default_factory=set)


class PageCluster(FakeCluster):
    """A cluster in memory that answers reviews."""

    def __init__(self) -> None:
        super().__init__()
        self.accounts: dict[str, Account] = {}
        self.reviews: list[tuple[str, Object]] = []

    def account(self, token: str, name: str, *rights: tuple[str, str, str], audiences: tuple[str, ...] = ()) -> Account:
        found = self.accounts[token] = Account(name, audiences, set(rights))
        return found

    async def create(self, kind: Kind, thing: Object, *, dry_run: bool = False) -> Object:
        if kind in (TOKEN_REVIEW, SUBJECT_ACCESS_REVIEW):
            self.reviews.append((kind.kind, thing["spec"]))
            status = self._token(thing["spec"]) if kind == TOKEN_REVIEW else self._access(thing["spec"])
            return {**thing, "status": status}
        return await super().create(kind, thing, dry_run=dry_run)

    def _token(self, spec: Object) -> Object:
        account = self.accounts.get(spec["token"])
        wanted = spec.get("audiences")
        common = [each for each in wanted or () if account is not None and each in account.audiences]
        if account is None or (wanted and not common) or (not wanted and account.audiences):
            return {"authenticated": False}
        user = {"username": account.name, "groups": ["system:authenticated"]}
        return {"authenticated": True, "user": user, "audiences": common or ["https://kubernetes"]}

    def _access(self, spec: Object) -> Object:
        asked = spec["resourceAttributes"]
        assert (asked["group"], asked["resource"]) == ("streamjob.io", "streamjobs")
        account = next(each for each in self.accounts.values() if each.name == spec["user"])
        wanted = asked["verb"], asked.get("namespace", "*"), asked.get("name", "*")
        allowed = any(all(a in ("*", b) for a, b in zip(each, wanted, strict=True)) for each in account.rights)
        return {"allowed": allowed}


def token(expires: float | None = None) -> str:
    """Return a token of a service account's form."""
    claims = json.dumps({} if expires is None else {"exp": expires}).encode()
    return f"head.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.signature"


def job(name: str, namespace: str = "shop", *, spec: Object | None = None, **status: Any) -> Object:
    """Return a StreamJob that runs well, with parts of its status in camelCase."""
    return {
        "apiVersion": "streamjob.io/v1alpha1",
        "kind": "StreamJob",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}", "generation": 1},
        "spec": {"checkpointing": {"interval": "10s"}, **(spec or {})},
        "status": {
            "lifecycleState": "STABLE",
            "jobStatus": {"state": "RUNNING", "attempt": 3},
            "conditions": [condition("Ready", "True", "UpToDate"), condition("CheckpointHealthy", "True", "Completes")],
            "reconciliation": {"lastReconciledRevision": f"{name}-7c9d"},
            "checkpoint": {
                "lastCompleted": {
                    "id": 12,
                    "kind": "checkpoint",
                    "path": f"s3://state/{name}/12",
                    "completed": "2026-11-22T22:26:32Z",
                }
            },
            "replicas": 4,
            **status,
        },
    }


def condition(kind: str, status: str, reason: str, message: str = "") -> Object:
    """Return a condition."""
    since = "2026-11-22T20:00:00Z"
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}


async def put(cluster: FakeCluster, *jobs: Object) -> None:
    """Store StreamJobs."""
    for each in jobs:
        await cluster.create(STREAM_JOB, each)


class _JobsAt(Jobs):
    """StreamJobs whose drivers are where the test has them."""

    def __init__(self, cluster: FakeCluster, drivers: dict[str, DriverAddress]) -> None:
        super().__init__(cluster, (), time.monotonic)
        self._drivers = drivers
        self.refusals: list[str] = []

    async def all(self) -> list[Object]:
        return await self._cluster.list(STREAM_JOB)

    async def driver(self, job: Object) -> DriverAddress | None:
        return self._drivers.get(job["metadata"]["name"])

    def refused(self, job: Object) -> None:
        self.refusals.append(job["metadata"]["name"])


@asynccontextmanager
async def page(
    cluster: PageCluster, drivers: dict[str, DriverAddress] | None = None, *, every: float = 0.05, now: float = NOW
) -> AsyncIterator[str]:
    """Serve the page, and give its address.

    Args:
        cluster: the Kubernetes API.
        drivers: where drivers are, by the names of their jobs; may change meanwhile.
        every: seconds from one look at the rows to the next.
        now: the time at the start, in seconds since 1970.
    """
    started = time.monotonic()

    def clock() -> float:
        return now + time.monotonic() - started

    jobs = _JobsAt(cluster, {} if drivers is None else drivers)
    async with aclosing(Drivers()) as asked:
        viewers = Viewers(cluster, time.monotonic, clock)
        figures = AskedFigures(asking(jobs, asked, clock), time.monotonic, every=0.2)
        parts = Parts(
            jobs=jobs,
            viewers=viewers,
            board=Board(jobs, figures, viewers, clock),
            figures=figures,
            codes=Codes(clock, iter(f"code-{number}" for number in range(1000)).__next__),
            proxy=Proxy(),
            actions=Actions(cluster, EventRecorder(cluster)),
            now=clock,
        )
        server = await serve_page(Page(parts, ("jobs.example.org",), every=every), "127.0.0.1", 0)
        try:
            yield f"http://127.0.0.1:{server.addresses[0][1]}"
        finally:
            await server.cleanup()


@contextmanager
def page_in_a_thread(
    cluster: PageCluster, drivers: dict[str, DriverAddress] | None = None, *, now: float = NOW
) -> Iterator[str]:
    """Serve the page for a browser, which waits in this thread."""
    addresses: list[str] = []
    ready = threading.Event()
    loop = asyncio.new_event_loop()
    done = asyncio.Event()

    async def serve() -> None:
        async with page(cluster, drivers, now=now) as address:
            addresses.append(address)
            ready.set()
            await done.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    assert ready.wait(20)
    try:
        yield addresses[0]
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join(10)
        loop.close()


VIEWER = ("system:serviceaccount:shop:viewer", ("list", "shop", "*"), ("get", "shop", "*"))
READER = {"audiences": (READ_AUDIENCE,)}
WRITER = {"audiences": (WRITE_AUDIENCE,)}
