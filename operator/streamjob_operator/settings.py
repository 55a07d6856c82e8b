"""The controller's settings: watched namespaces, intervals, and ports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from streamjob.errors import InvalidInput

DEFAULT_IMAGE = f"streamjob-runtime:{version('streamjob')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseSettings:
    """How replicas agree on the one that acts; the durations are those that Kubernetes' own controllers use.

    Args:
        identity: of this replica; the pod's name, as a rule.
        duration: seconds after which others may take over from a holder that is silent.
        renew_deadline: seconds after which a holder that cannot renew gives up.
        retry: seconds between two tries.
        stuck: seconds for which the main loop may do nothing while the lease is held; then the process is ended, and
            another replica takes over when the lease has run out.
    """

    namespace: str
    identity: str
    name: str = "streamjob-controller"
    duration: float = 15.0
    renew_deadline: float = 10.0
    retry: float = 2.0
    stuck: float = 30.0

    @property
    def grace(self) -> float:
        """Seconds from the loss of the lease until others may act, at the least."""
        return self.duration - self.renew_deadline - self.retry

    def __post_init__(self) -> None:
        # Between two tries a holder sleeps, so it notices the end of its deadline one retry late.
        if not self.duration > self.renew_deadline + self.retry or not self.renew_deadline > self.retry > 0:
            raise InvalidInput(
                f"a lease of {self.duration:g} s cannot be renewed every {self.retry:g} s within"
                f" {self.renew_deadline:g} s",
                "Let the lease outlast the deadline for its renewal and a retry, and that deadline a retry.",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a replica of the controller.

    Args:
        namespaces: the namespaces whose StreamJobs are handled; empty for all.
        lease: how the one that acts is elected; None: this process acts at once, so it must be alone.
        interval: seconds between two looks at a job at which nothing happens.
        concurrency: how many jobs are reconciled at the same time.
        image: of driver pods, for StreamJobs that name none.
        ambient_credentials: whether the controller's own credentials serve jobs that name none.
        own_namespace: where the controller's pods are.
        own_labels: labels of the controller's pods; with the namespace they define who may reach drivers. Without
            labels, no NetworkPolicy is created.
        driver_metrics_from: from where drivers' metrics may be read, as in a NetworkPolicy's `from`; empty for
            everywhere.
        probes_port: of `/healthz` and `/readyz`.
        metrics_port: of `/metrics`.
        admission_certificate: directory with the certificate of the admission webhook; None: there is no webhook.
        admission_port: of the admission webhook.
        page_port: of the page of all jobs; None: there is no page.
        page_hosts: names that the page is reached by, in addition to loopback's.
        host: address that all of them listen on.
    """

    namespaces: tuple[str, ...] = ()
    lease: LeaseSettings | None = None
    interval: float = 15.0
    concurrency: int = 20
    image: str = DEFAULT_IMAGE
    ambient_credentials: bool = False
    own_namespace: str | None = None
    own_labels: Mapping[str, str] = field(default_factory=dict)
    driver_metrics_from: tuple[Mapping[str, Any], ...] = ()
    probes_port: int = 8081
    metrics_port: int = 8080
    admission_certificate: Path | None = None
    admission_port: int = 8443
    page_port: int | None = None
    page_hosts: tuple[str, ...] = ()
    host: str = "0.0.0.0"

    def __post_init__(self) -> None:
        if self.interval <= 0 or self.concurrency < 1:
            raise InvalidInput(
                f"an interval of {self.interval:g} s with {self.concurrency} reconciles at a time cannot be kept",
                "Give a positive interval, and a concurrency of at least 1.",
            )
