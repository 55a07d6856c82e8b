"""The controller's process: runs leader election, watches, reconciliation and health endpoints."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from importlib.metadata import version
from typing import Any

from streamjob.errors import ExitCode
from streamjob.telemetry.process import Telemetry, open_telemetry
from streamjob.telemetry.spans import Attribute
from streamjob_operator import objects
from streamjob_operator.cluster.api import Cluster, KubernetesCluster, connect
from streamjob_operator.cluster.driver_api import Drivers
from streamjob_operator.cluster.events import EventRecorder
from streamjob_operator.cluster.kinds import STREAM_JOB, STREAM_SNAPSHOT, Object
from streamjob_operator.controller import Controller, OwnWrites
from streamjob_operator.decisions import decide, wanted_successor, wanted_trials, wanted_triggers
from streamjob_operator.decisions.values.actions import CreateDriver, CreatePreflight
from streamjob_operator.decisions.values.revision import Revision
from streamjob_operator.evaluation.cache import Evaluate, Evaluations
from streamjob_operator.evaluation.evaluator import Evaluator
from streamjob_operator.evaluation.reading import Resources
from streamjob_operator.handlers import watch
from streamjob_operator.machinery.election import Election, OpenCluster
from streamjob_operator.machinery.mirror import Mirror, MirroredCluster
from streamjob_operator.machinery.watch_audit import Health, metrics_server, probe_server, serve
from streamjob_operator.machinery.work_queue import Pace
from streamjob_operator.metrics import Metrics
from streamjob_operator.reconciling.acting import Actor
from streamjob_operator.reconciling.observing import Observer, SnapshotIndex, Tokens
from streamjob_operator.reconciling.pod_dry_run import Admissions
from streamjob_operator.reconciling.reconciler import JobReconciler
from streamjob_operator.reconciling.snapshot_reconciler import SnapshotReconciler
from streamjob_operator.reconciling.tracing import Moves
from streamjob_operator.resources.base import Metadata
from streamjob_operator.settings import LeaseSettings, Settings
from streamjob_operator.storage.job_stores import JobStores
from streamjob_operator.web.actions import Actions
from streamjob_operator.web.board import Board
from streamjob_operator.web.codes import Codes
from streamjob_operator.web.figures import AskedFigures, asking
from streamjob_operator.web.jobs import Jobs
from streamjob_operator.web.proxy import Proxy
from streamjob_operator.web.server import Page, Parts, serve_page
from streamjob_operator.web.viewers import Viewers
from streamjob_operator.webhook.certificate import Certificate
from streamjob_operator.webhook.server import admission_server, serve_reviews

_log = logging.getLogger(__name__)
_CLOSING = 5.0
_LEVELS = 20_000


class DriverBuilder:
    """Makes the objects of drivers, preflights and executors as the settings say.

    Args:
        traced: whether it sends traces.
    """

    def __init__(self, settings: Settings, *, traced: bool = False) -> None:
        self._image = settings.image
        self._traced = traced
        self._controller = (
            objects.Controller(settings.own_namespace, settings.own_labels)
            if settings.own_namespace and settings.own_labels
            else None
        )
        self._metrics_from = [dict(each) for each in settings.driver_metrics_from]

    def __call__(self, job: Object, revision: Revision, action: CreateDriver | CreatePreflight) -> Sequence[Object]:
        """Return the objects of a pod: those that it mounts, the network policy of a driver, and last the pod."""
        owner = Metadata.model_validate(job["metadata"])
        file = objects.job_config_map(owner, revision)
        if isinstance(action, CreatePreflight):
            return [file, objects.preflight_pod(owner, revision, action, default_image=self._image)]
        made = [objects.token_secret(owner, secrets.token_urlsafe(32)), file]
        if self._controller is not None:
            executors = revision.instances > 0
            made.append(objects.network_policy(owner, self._controller, self._metrics_from, executors=executors))
        pod = objects.driver_pod(owner, revision, action, default_image=self._image, traced=self._traced)
        return [*made, pod]

    def executors(self, job: Object, revision: Revision, instances: int) -> Sequence[Object]:
        """Return the objects of executors, with their set last; none for a revision without executors."""
        owner, executor = Metadata.model_validate(job["metadata"]), revision.spec().executor
        if executor is None:
            return []
        made = [
            objects.executors_secret(owner, secrets.token_urlsafe(32)),
            objects.driver_service(owner),
            objects.disruption_budget(owner, executor),
        ]
        if self._controller is not None:
            made.append(objects.executors_policy(owner))
        return [*made, objects.executor_set(owner, revision, instances, default_image=self._image)]


def controller_for(
    settings: Settings,
    api: Cluster,
    drivers: Drivers,
    evaluate: Evaluate,
    health: Health,
    metrics: Metrics,
    mirror: Mirror | None = None,
    telemetry: Telemetry | None = None,
) -> Controller:
    """Return the controller, put together; the watched objects are in the mirror."""
    traced = telemetry is not None and telemetry.settings.traces
    identity = settings.lease.identity if settings.lease is not None else ""
    mirror = mirror or Mirror()
    cluster = MirroredCluster(api, mirror)
    evaluations = Evaluations(evaluate)
    index, tokens = SnapshotIndex(), Tokens(cluster)
    stored = JobStores(cluster, ambient=settings.ambient_credentials)
    events = EventRecorder(cluster, identity)
    build = DriverBuilder(settings, traced=traced)
    admissions = Admissions(cluster, build, build.executors)
    observer = Observer(
        cluster,
        drivers,
        tokens,
        stored,
        index,
        admissions,
        wanted_triggers,
        wanted_trials,
        evaluations,
        wanted_successor,
    )
    actor = Actor(cluster, drivers, tokens, stored, events, admissions, traced=traced)
    moves = Moves(telemetry.put) if telemetry is not None and traced else None
    own_writes, resources = OwnWrites(), Resources(evaluations)
    jobs = JobReconciler(
        cluster, resources, observer.observe, decide, actor, metrics, events, wrote=own_writes.note, moves=moves
    )
    snapshots = SnapshotReconciler(cluster, resources, observer, actor, stored, events)
    controller = Controller(
        cluster,
        {STREAM_JOB: jobs.reconcile, STREAM_SNAPSHOT: snapshots.reconcile},
        index,
        health,
        metrics,
        own_writes=own_writes,
        mirror=mirror,
        namespaces=settings.namespaces,
        pace=Pace(interval=settings.interval),
        concurrency=settings.concurrency,
    )
    evaluations.wake = lambda namespace, name: controller.loops.wake((STREAM_JOB, namespace, name))
    return controller


async def run(settings: Settings) -> ExitCode:
    """Run a replica until it is stopped or loses its lease.

    Raises:
        InvalidInput: the settings reach no cluster, or there is no certificate for the webhook.
    """
    # One resource that is nested deeply must not end the watch of all: the API server takes 10,000 levels.
    sys.setrecursionlimit(_LEVELS)
    stop = asyncio.Event()
    _stop_on_signals(stop)
    certificate = Certificate(settings.admission_certificate) if settings.admission_certificate is not None else None
    client = await connect(os.environ)
    metrics, health = Metrics(), Health()
    telemetry = open_telemetry(os.environ, _about_process(settings))
    if telemetry is not None:
        telemetry.send_metrics(metrics.registry.collect, time.time())
    servers = [
        await serve(probe_server(health), settings.host, settings.probes_port),
        await serve(metrics_server(metrics.text), settings.host, settings.metrics_port),
    ]
    try:
        if certificate is not None:
            # Replicas that stand by answer too.
            app = admission_server(Evaluator())
            servers.append(await serve_reviews(app, certificate, settings.host, settings.admission_port))
        cluster = KubernetesCluster(client, observe=metrics.request)
        async with _page(settings, cluster, metrics) as page:
            act = partial(_act, settings, cluster, health, metrics, stop, page, telemetry)
            return await _in_turn(settings.lease, health, metrics, stop, act)
    finally:
        if telemetry is not None:
            await asyncio.to_thread(telemetry.close)
        for server in servers:
            await server.cleanup()
        await client.close()  # type: ignore[no-untyped-call]


async def _in_turn(
    lease: LeaseSettings | None,
    health: Health,
    metrics: Metrics,
    stop: asyncio.Event,
    act: Callable[[Election | None], Awaitable[ExitCode]],
) -> ExitCode:
    """Act as soon as this replica leads."""
    # A replica on standby is ready: it takes over as soon as it may.
    health.ready = True
    if lease is None:
        metrics.leader.set(1)
        return await act(None)
    election = Election(lease, _client_of_the_election(lease, metrics))
    election.start()
    try:
        if not await _first(election.acquired, stop, election.lost):
            return ExitCode.OK if stop.is_set() else ExitCode.FAILED
        metrics.leader.set(1)
        return await act(election)
    finally:
        await election.stop()


def _client_of_the_election(lease: LeaseSettings, metrics: Metrics) -> OpenCluster:
    @contextlib.asynccontextmanager
    async def connected() -> AsyncIterator[Cluster]:
        client = await connect(os.environ)
        try:
            yield KubernetesCluster(client, timeout=lease.renew_deadline, observe=metrics.request)
        finally:
            await client.close()  # type: ignore[no-untyped-call]

    return connected


@contextlib.asynccontextmanager
async def _page(settings: Settings, cluster: Cluster, metrics: Metrics) -> AsyncIterator[Jobs | None]:
    """Serve the page of all jobs, if there is to be one, and give the jobs that it shows.

    Every replica serves it: a Service does not know which one leads.
    """
    if settings.page_port is None:
        yield None
        return
    identity = settings.lease.identity if settings.lease is not None else ""
    async with contextlib.aclosing(Drivers(observe=metrics.control)) as drivers:
        jobs = Jobs(cluster, settings.namespaces, time.monotonic)
        viewers = Viewers(cluster, time.monotonic, time.time)
        figures = AskedFigures(asking(jobs, drivers, time.time), time.monotonic)
        parts = Parts(
            jobs=jobs,
            viewers=viewers,
            board=Board(jobs, figures, viewers, time.time),
            figures=figures,
            codes=Codes(time.time, lambda: secrets.token_urlsafe(32)),
            proxy=Proxy(),
            actions=Actions(cluster, EventRecorder(cluster, identity)),
            now=time.time,
        )
        server = await serve_page(Page(parts, settings.page_hosts), settings.host, settings.page_port)
        try:
            yield jobs
        finally:
            await server.cleanup()


def _about_process(settings: Settings) -> dict[str, Attribute]:
    identity = settings.lease.identity if settings.lease is not None else os.uname().nodename
    about: dict[str, Attribute] = {
        "service.name": "streamjob-controller",
        "service.instance.id": identity,
        "service.version": version("streamjob"),
    }
    return about | ({} if settings.own_namespace is None else {"service.namespace": settings.own_namespace})


async def _first(wanted: asyncio.Event, *others: asyncio.Event) -> bool:
    """Wait for one of several events, and return whether it is the one that is wanted, and no other."""
    tasks = [asyncio.create_task(each.wait()) for each in (wanted, *others)]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    return wanted.is_set() and not any(each.is_set() for each in others)


async def _act(
    settings: Settings,
    cluster: Cluster,
    health: Health,
    metrics: Metrics,
    stop: asyncio.Event,
    page: Jobs | None,
    telemetry: Telemetry | None,
    election: Election | None,
) -> ExitCode:
    """Watch and reconcile until stopped; a replica that has lost its lease stops acting at once."""
    ended, ready = asyncio.Event(), asyncio.Event()
    async with (
        contextlib.aclosing(Drivers(observe=metrics.control)) as drivers,
        contextlib.aclosing(Evaluator()) as evaluator,
    ):
        mirror = Mirror()
        controller = controller_for(settings, cluster, drivers, evaluator, health, metrics, mirror, telemetry)
        await controller.begin()
        if page is not None:
            page.lead(mirror)
        stopping = asyncio.create_task(stop.wait(), name="wait for a signal")
        sweeping = asyncio.create_task(controller.sweep_for_ever(), name="list everything")
        watching = asyncio.create_task(watch(controller, settings.namespaces, ended, ready), name="watch")
        starting = asyncio.create_task(_take_signals_back(ready, stop), name="take the signals back")
        tasks: set[asyncio.Task[Any]] = {stopping, sweeping, watching}
        if election is not None:
            tasks.add(asyncio.create_task(election.lost.wait(), name="wait for the loss of the lease"))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            gave_up = election is not None and election.lost.is_set()
            await controller.loops.close(0.0 if gave_up else _CLOSING)
            if election is not None:
                election.rest()
            for ended_task in (sweeping, watching):
                if ended_task.done():
                    ended_task.result()
                    _log.error("%s has ended", ended_task.get_name())
            return ExitCode.OK if stop.is_set() else ExitCode.FAILED
        finally:
            ended.set()
            for helper in {starting, *tasks} - {watching}:
                helper.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await asyncio.wait_for(watching, _CLOSING)


async def _take_signals_back(ready: asyncio.Event, stop: asyncio.Event) -> None:
    """Kopf takes the signals for itself when it starts; reconciles under way are to end before it does."""
    await ready.wait()
    _stop_on_signals(stop)


def _stop_on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
