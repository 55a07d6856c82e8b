"""The resources that a change concerns; no change is missed; Kopf's role, and its limits."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import Counter
from collections.abc import Iterator

import pytest
from tests.unit.operator.edge.fake_cluster import FakeCluster
from typer.testing import CliRunner

from streamjob.errors import InvalidInput
from streamjob_operator.__main__ import app
from streamjob_operator.cluster.api import NotFound, Unavailable
from streamjob_operator.cluster.kinds import POD, STREAM_JOB, STREAM_SNAPSHOT, Kind, Object
from streamjob_operator.controller import WATCHED, Controller, NotServed, OwnWrites
from streamjob_operator.handlers import kopf_settings, registry_for
from streamjob_operator.machinery.watch_audit import Health, WatchAudit
from streamjob_operator.metrics import Metrics
from streamjob_operator.reconciling.observing import FINALIZER, SnapshotIndex
from streamjob_operator.settings import Settings


def job(name: str = "orders", version: int = 1) -> Object:
    return {"kind": "StreamJob", "metadata": {"namespace": "a", "name": name, "resourceVersion": str(version)}}


def snapshot(name: str, job: str = "orders", version: int = 1) -> Object:
    meta = {"namespace": "a", "name": name, "resourceVersion": str(version)}
    return {"kind": "StreamSnapshot", "metadata": meta, "spec": {"jobRef": {"name": job}}}


def pod(name: str, label: str, owner: str | None = None, version: int = 1) -> Object:
    meta: Object = {
        "namespace": "a",
        "name": name,
        "resourceVersion": str(version),
        "labels": {"streamjob.io/name": label},
    }
    if owner is not None:
        meta["ownerReferences"] = [{"kind": "StreamJob", "name": owner}]
    return {"kind": "Pod", "metadata": meta}


class Bench:
    """A controller whose reconcilers only count."""

    def __init__(self, cluster: FakeCluster | None = None, sweep_every: float = 60.0) -> None:
        self.cluster = cluster or FakeCluster()
        self.reconciled: Counter[tuple[Kind, str]] = Counter()
        self.index = SnapshotIndex()
        self.own_writes = OwnWrites()
        self.health = Health(WatchAudit(patience=60), clock=lambda: self.now)
        self.now = 0.0
        self.controller = Controller(
            self.cluster,
            {kind: self._reconciler(kind) for kind in (STREAM_JOB, STREAM_SNAPSHOT)},
            self.index,
            self.health,
            Metrics(),
            own_writes=self.own_writes,
            sweep_every=sweep_every,
        )

    def _reconciler(self, kind: Kind):  # type: ignore[no-untyped-def]
        async def reconcile(_namespace: str, name: str) -> float | None:
            self.reconciled[(kind, name)] += 1
            return None

        return reconcile

    async def rest(self, expected: set[tuple[Kind, str]]) -> None:
        while set(self.reconciled) != expected:
            await asyncio.sleep(0)
        await self.controller.loops.close()


async def test_a_change_of_a_job_wakes_it_and_its_snapshots() -> None:
    bench = Bench()
    bench.index.put(snapshot("s1"))
    bench.index.put(snapshot("s2", job="others"))
    bench.controller.saw(STREAM_JOB, job())
    await bench.rest({(STREAM_JOB, "orders"), (STREAM_SNAPSHOT, "s1")})


async def test_a_change_of_a_snapshot_wakes_it_and_its_job() -> None:
    bench = Bench()
    bench.controller.saw(STREAM_SNAPSHOT, snapshot("s1"))
    await bench.rest({(STREAM_JOB, "orders"), (STREAM_SNAPSHOT, "s1")})
    assert [each["metadata"]["name"] for each in bench.index.of("a", "orders")] == ["s1"]


async def test_what_the_controller_wrote_itself_wakes_only_the_snapshots_that_wait_for_it() -> None:
    bench = Bench()
    bench.index.put(snapshot("waits"))
    bench.index.put(snapshot("rests") | {"status": {"state": "Completed"}})
    bench.own_writes.note(job(version=7))
    bench.controller.saw(STREAM_JOB, job(version=7))
    await bench.rest({(STREAM_SNAPSHOT, "waits")})


async def test_what_somebody_else_wrote_wakes_the_job() -> None:
    bench = Bench()
    bench.own_writes.note(job(version=7))
    bench.controller.saw(STREAM_JOB, job(version=8))
    await bench.rest({(STREAM_JOB, "orders")})


async def test_a_snapshot_that_is_gone_is_forgotten() -> None:
    bench = Bench()
    bench.index.put(snapshot("s1"))
    bench.controller.saw(STREAM_SNAPSHOT, snapshot("s1", version=2), gone=True)
    assert bench.index.of("a", "orders") == ()
    await bench.controller.loops.close()


async def test_a_pod_wakes_the_job_that_owns_it_also_if_its_label_is_cut() -> None:
    bench = Bench()
    bench.controller.saw(POD, pod("p", label="orders-of-a-very", owner="orders-of-a-very-long-name"))
    await bench.rest({(STREAM_JOB, "orders-of-a-very-long-name")})


def test_an_older_version_of_a_snapshot_does_not_replace_a_newer_one() -> None:
    index = SnapshotIndex()
    index.put(snapshot("s1", version=9) | {"status": {"state": "Completed"}})
    index.put(snapshot("s1", version=3))

    assert index.of("a", "orders")[0]["status"]["state"] == "Completed"


async def test_what_a_watch_does_not_bring_a_listing_finds() -> None:
    cluster = FakeCluster()
    for kind, thing in (
        (STREAM_JOB, job()),
        (STREAM_SNAPSHOT, snapshot("s1", job="other")),
        (POD, pod("p", "orders")),
    ):
        await cluster.create(kind, thing)
    bench = Bench(cluster)
    await bench.controller.sweep()

    assert len(bench.index.of("a", "other")) == 1
    bench.now = 61.0
    assert not bench.health.audit.alive(bench.now)
    await bench.rest({(STREAM_JOB, "orders"), (STREAM_JOB, "other"), (STREAM_SNAPSHOT, "s1")})


async def test_a_cluster_that_does_not_know_the_resources_is_told_of() -> None:
    cluster = FakeCluster()
    cluster.faults["list"] = [NotFound("GET /apis/streamjob.io/v1alpha1/streamjobs was answered with 404")]

    with pytest.raises(NotServed, match="Install their definitions"):
        await Bench(cluster).controller.begin()


async def test_a_controller_that_can_list_nothing_for_long_is_to_be_replaced() -> None:
    cluster = FakeCluster()
    cluster.faults["list"] = [Unavailable("no answer")] * 100
    bench = Bench(cluster)
    await bench.controller.begin()

    assert bench.health.problem() is None
    bench.now = 301.0
    assert bench.health.problem() == "no object was listed for 301 s"


async def test_behind_an_api_server_that_was_away_every_object_is_looked_at() -> None:
    cluster = FakeCluster()
    bench = Bench(cluster, sweep_every=0.0)
    bench.controller.saw(STREAM_JOB, job())
    while not bench.reconciled:
        await asyncio.sleep(0)

    cluster.faults["list"] = [Unavailable("no answer")] * 3
    sweeping = asyncio.create_task(bench.controller.sweep_for_ever())
    while bench.reconciled[(STREAM_JOB, "orders")] < 2:
        await asyncio.sleep(0)

    assert not cluster.faults["list"]
    for _ in range(100):
        await asyncio.sleep(0)
    assert bench.reconciled[(STREAM_JOB, "orders")] == 2
    sweeping.cancel()
    await bench.controller.loops.close()


def test_kopf_repeats_a_request_for_as_long_as_it_takes_and_soon() -> None:
    delays = list(itertools.islice(kopf_settings().networking.error_backoffs, 1000))  # type: ignore[arg-type]

    assert len(delays) == 1000
    assert max(delays) <= 10


def test_kopf_takes_no_finalizer_off_that_is_not_its_own() -> None:
    assert kopf_settings().persistence.finalizer != FINALIZER


def test_kopf_is_asked_for_events_only_so_that_it_writes_nothing() -> None:
    registry = registry_for(Bench().controller)

    assert len(registry._watching.get_all_handlers()) == len(WATCHED)
    assert not registry._changing.get_all_handlers()
    assert not registry._spawning.get_all_handlers()
    assert not kopf_settings().posting.enabled


@pytest.fixture
def logging_as_it_was() -> Iterator[None]:
    """Undo what a program does to the process's logging: its standard error is closed when the test is over."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    levels = {name: logging.getLogger(name).level for name in list(root.manager.loggerDict)}
    yield
    root.setLevel(level)
    root.handlers[:] = handlers
    for name in list(root.manager.loggerDict):
        logging.getLogger(name).setLevel(levels.get(name, logging.NOTSET))


@pytest.mark.usefixtures("logging_as_it_was")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--interval", "soon"], "--interval: 'soon' is not a duration"),
        (["--own-labels", "app"], "'app' is not a label"),
        (["--concurrency", "0"], "0 reconciles at a time"),
    ],
)
def test_an_option_that_cannot_be_used_is_named(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, arguments)

    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.usefixtures("logging_as_it_was")
def test_without_a_cluster_it_says_how_to_name_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nonexistent/kubeconfig")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    result = CliRunner().invoke(app, ["--probes-port", "0", "--metrics-port", "0"])

    assert result.exit_code == 2
    assert "set KUBECONFIG" in result.stderr


def test_an_interval_that_is_no_time_is_refused() -> None:
    with pytest.raises(InvalidInput, match="cannot be kept"):
        Settings(interval=0)
