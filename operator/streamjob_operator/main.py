"""The controller's process: elects itself, watches, reconciles, and says how it is."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
from collections.abc import Sequence
from typing import Any

from streamjob.errors import ExitCode
from streamjob_operator import manifests
from streamjob_operator.acting import Actor
from streamjob_operator.cluster.api import Cluster, KubernetesCluster, connect
from streamjob_operator.cluster.events import EventRecorder
from streamjob_operator.cluster.kinds import STREAM_JOB, STREAM_SNAPSHOT, Object
from streamjob_operator.cluster.mirror import Mirror, MirroredCluster
from streamjob_operator.control import Drivers
from streamjob_operator.controller import Controller, OwnWrites
from streamjob_operator.decisions import decide, wanted_triggers
from streamjob_operator.decisions.actions import CreateDriver
from streamjob_operator.handlers import watch
from streamjob_operator.leader import Leadership
from streamjob_operator.metrics import Metrics
from streamjob_operator.observing import Observer, SnapshotIndex, Tokens
from streamjob_operator.probes import Health, metrics_server, probe_server, serve
from streamjob_operator.reconciler import JobReconciler
from streamjob_operator.resources.base import Metadata
from streamjob_operator.revision import Revision
from streamjob_operator.settings import Settings
from streamjob_operator.snapshot_reconciler import SnapshotReconciler
from streamjob_operator.storing import Snapshots
from streamjob_operator.waking import Pace

_log = logging.getLogger(__name__)
_CLOSING = 5.0


class DriverBuilder:
    """Makes the objects of drivers as the settings say."""

    def __init__(self, settings: Settings) -> None:
        self._image = settings.image
        self._controller = (
            manifests.Controller(settings.own_namespace, settings.own_labels)
            if settings.own_namespace and settings.own_labels
            else None
        )

    def __call__(self, job: Object, revision: Revision, action: CreateDriver) -> Sequence[Object]:
        """Return what a driver's pod mounts, who may reach it, and last the pod."""
        owner = Metadata.model_validate(job["metadata"])
        objects = [
            manifests.token_secret(owner, secrets.token_urlsafe(32)),
            manifests.job_config_map(owner, revision),
        ]
        if self._controller is not None:
            objects.append(manifests.network_policy(owner, self._controller))
        return [*objects, manifests.driver_pod(owner, revision, action, default_image=self._image)]


def controller_for(settings: Settings, api: Cluster, drivers: Drivers, health: Health, metrics: Metrics) -> Controller:
    """Return the controller, put together."""
    identity = settings.lease.identity if settings.lease is not None else ""
    mirror = Mirror()
    cluster = MirroredCluster(api, mirror)
    index, tokens = SnapshotIndex(), Tokens(cluster)
    stored = Snapshots(cluster, ambient=settings.ambient_credentials)
    events = EventRecorder(cluster, identity)
    observer = Observer(cluster, drivers, tokens, stored, index, wanted_triggers)
    actor = Actor(cluster, drivers, tokens, stored, events, DriverBuilder(settings))
    own_writes = OwnWrites()
    jobs = JobReconciler(cluster, observer.observe, decide, actor, metrics, own_writes.note)
    snapshots = SnapshotReconciler(cluster, observer, actor, stored, events)
    return Controller(
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


async def run(settings: Settings) -> ExitCode:
    """Run a replica until it is told to stop, or loses its lease.

    Raises:
        InvalidInput: no cluster can be reached with what is set.
    """
    stop = asyncio.Event()
    _stop_on_signals(stop)
    client = await connect(os.environ)
    metrics, health = Metrics(), Health()
    # Renewing a lease must not wait behind a thousand reconciles.
    election_client = await connect(os.environ)
    servers = [
        await serve(probe_server(health), settings.host, settings.probes_port),
        await serve(metrics_server(metrics.text), settings.host, settings.metrics_port),
    ]
    try:
        cluster = KubernetesCluster(client, observe=metrics.request)
        # A replica that stands by is ready: it takes over as soon as it may.
        health.ready = True
        if settings.lease is None:
            metrics.leader.set(1)
            return await _act(settings, cluster, health, metrics, stop, lost=None)
        patient = KubernetesCluster(election_client, timeout=settings.lease.renew_deadline, observe=metrics.request)
        leadership = Leadership(patient, settings.lease)
        if not await _elected(leadership, stop):
            return ExitCode.OK
        metrics.leader.set(1)
        keeping = asyncio.create_task(leadership.keep(), name="keep the lease")
        try:
            return await _act(settings, cluster, health, metrics, stop, lost=keeping)
        finally:
            if not keeping.done():
                keeping.cancel()
                await leadership.release()
    finally:
        for server in servers:
            await server.cleanup()
        await client.close()  # type: ignore[no-untyped-call]
        await election_client.close()  # type: ignore[no-untyped-call]


async def _elected(leadership: Leadership, stop: asyncio.Event) -> bool:
    electing = asyncio.create_task(leadership.acquire(), name="acquire the lease")
    stopping = asyncio.create_task(stop.wait(), name="wait for a signal")
    await asyncio.wait({electing, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if stop.is_set() and not electing.done():
        electing.cancel()
        return False
    await electing
    return True


async def _act(
    settings: Settings,
    cluster: Cluster,
    health: Health,
    metrics: Metrics,
    stop: asyncio.Event,
    *,
    lost: asyncio.Task[None] | None,
) -> ExitCode:
    """Watch and reconcile until told to stop; a replica whose lease is lost leaves everything as it is, at once."""
    ended, ready = asyncio.Event(), asyncio.Event()
    async with Drivers(observe=metrics.control) as drivers:
        controller = controller_for(settings, cluster, drivers, health, metrics)
        await controller.begin()
        stopping = asyncio.create_task(stop.wait(), name="wait for a signal")
        sweeping = asyncio.create_task(controller.sweep_for_ever(), name="list everything")
        watching = asyncio.create_task(watch(controller, settings.namespaces, ended, ready), name="watch")
        starting = asyncio.create_task(_take_signals_back(ready, stop), name="take the signals back")
        tasks: set[asyncio.Task[Any]] = {stopping, sweeping, watching}
        if lost is not None:
            tasks.add(lost)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            gave_up = lost is not None and lost.done()
            await controller.loops.close(0.0 if gave_up else _CLOSING)
            for ended_task in (sweeping, watching):
                if ended_task.done():
                    ended_task.result()
                    _log.error("%s has ended", ended_task.get_name())
            return ExitCode.OK if stop.is_set() else ExitCode.FAILED
        finally:
            ended.set()
            for helper in (stopping, sweeping, starting):
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
