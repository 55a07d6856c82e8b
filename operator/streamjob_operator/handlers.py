"""Watches the cluster with Kopf and passes the events on to the controller. No other module knows Kopf.

The handlers are for events only. So Kopf writes nothing, neither annotations nor finalizers, and does not remember the
objects that it has handled: each reconciliation observes the world as it is.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import kopf

from streamjob_operator.cluster.kinds import Kind, Object
from streamjob_operator.controller import WATCHED, Controller

_WATCH_SECONDS = 300
_CONNECT_SECONDS = 15


class Backoffs:
    """Endless delays before requests are repeated, so that a few bad minutes of the API server do not end Kopf."""

    def __iter__(self) -> Iterator[float]:
        return itertools.chain((1, 1, 2, 3, 5), itertools.repeat(10))


class _NothingToCompare(kopf.DiffBaseStorage):
    """Saves Kopf the copy of every object from which it would compute changes that the controller does not use."""

    def build(self, *, body: kopf.Body, extra_fields: Iterable[Any] | None = None) -> kopf.BodyEssence:
        return cast("kopf.BodyEssence", {})

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        raise NotImplementedError("only a handler of changes has something stored")


def registry_for(controller: Controller) -> kopf.OperatorRegistry:
    """Return the handlers that pass all watched changes to a controller."""
    registry = kopf.OperatorRegistry()
    for kind in WATCHED:
        _watch(registry, kind, controller)
    # Kopf's own client, of a service account or a kubeconfig; after a 401 it asks again, so renewed tokens are read.
    kopf.on.login(registry=registry, id="service-account", errors=kopf.ErrorsMode.IGNORED)(
        kopf.login_with_service_account
    )
    kopf.on.login(registry=registry, id="kubeconfig", errors=kopf.ErrorsMode.IGNORED)(kopf.login_with_kubeconfig)
    return registry


def kopf_settings() -> kopf.OperatorSettings:
    """Return Kopf's settings: watches that end now and then, no writes of its own, no scan for new kinds."""
    settings = kopf.OperatorSettings()
    settings.watching.server_timeout = _WATCH_SECONDS
    settings.watching.client_timeout = _WATCH_SECONDS + 30
    settings.watching.connect_timeout = _CONNECT_SECONDS
    # A page of a listing is in memory completely, including the parts that are dropped afterwards.
    settings.watching.chunk_size = 100
    settings.networking.error_backoffs = Backoffs()
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.scanning.disabled = True
    # Kopf takes its finalizer off whatever no handler of it needs one for, so it must not be the controller's.
    settings.persistence.finalizer = "streamjob.io/kopf"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix="streamjob.io")
    settings.persistence.diffbase_storage = _NothingToCompare()
    for kind, labels in WATCHED.items():
        if labels is not None:
            settings.watching.label_selectors[(kind.group, kind.version, kind.plural)] = labels
    return settings


async def watch(controller: Controller, namespaces: Sequence[str], stop: asyncio.Event, ready: asyncio.Event) -> None:
    """Watch until `stop` is set.

    Args:
        controller: gets each change.
        namespaces: those to watch; empty for all.
        stop: ends it.
        ready: set here once the watches begin.
    """
    await kopf.operator(
        registry=registry_for(controller),
        settings=kopf_settings(),
        namespaces=list(namespaces),
        clusterwide=not namespaces,
        standalone=True,
        stop_flag=stop,
        ready_flag=ready,
    )


def _watch(registry: kopf.OperatorRegistry, kind: Kind, controller: Controller) -> None:
    async def saw(event: Any, **_: Any) -> None:
        thing: Object = dict(event["object"])
        controller.saw(kind, thing, gone=event["type"] == "DELETED")

    kopf.on.event(kind.group, kind.version, kind.plural, registry=registry, id=f"saw-{kind.plural}")(saw)
