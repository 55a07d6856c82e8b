"""`python -m streamjob_operator`: runs a replica of the controller."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from streamjob.durations import parse_duration
from streamjob.errors import InvalidInput, StreamJobError
from streamjob.telemetry.logs import JsonLines, LogFormat, TextLines
from streamjob_operator.main import run
from streamjob_operator.settings import DEFAULT_IMAGE, LeaseSettings, Settings

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class LogLevel(StrEnum):
    """Minimum level of logged messages."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@app.command()
def controller(
    namespace: Annotated[
        list[str] | None,
        typer.Option(envvar="STREAMJOB_NAMESPACES", help="A namespace to manage; may be repeated. Default: all."),
    ] = None,
    interval: Annotated[
        str, typer.Option(envvar="STREAMJOB_INTERVAL", help="Time between two reconciliations of an idle job.")
    ] = "15s",
    concurrency: Annotated[
        int, typer.Option(envvar="STREAMJOB_CONCURRENCY", help="Number of jobs that are reconciled at the same time.")
    ] = 20,
    image: Annotated[
        str, typer.Option(envvar="STREAMJOB_IMAGE", help="Image of drivers for StreamJobs without `image`.")
    ] = DEFAULT_IMAGE,
    allow_ambient_credentials: Annotated[
        bool,
        typer.Option(
            envvar="STREAMJOB_ALLOW_AMBIENT_CREDENTIALS",
            help="Use the controller's own credentials for jobs without `storage.credentialsSecretRef`: everyone who "
            "may create a StreamJob can then read and delete with these credentials.",
        ),
    ] = False,
    leader_election: Annotated[
        bool, typer.Option(envvar="STREAMJOB_LEADER_ELECTION", help="Whether other replicas may run.")
    ] = True,
    lease_name: Annotated[
        str, typer.Option(envvar="STREAMJOB_LEASE_NAME", help="Name of the Lease.")
    ] = "streamjob-controller",
    lease_duration: Annotated[
        str, typer.Option(envvar="STREAMJOB_LEASE_DURATION", help="Time after which another replica takes over.")
    ] = "15s",
    own_namespace: Annotated[
        str | None, typer.Option(envvar="POD_NAMESPACE", help="Namespace of the controller's pods, and of the Lease.")
    ] = None,
    own_name: Annotated[
        str | None, typer.Option(envvar="POD_NAME", help="Identity of this replica. Default: the host's name.")
    ] = None,
    own_labels: Annotated[
        str,
        typer.Option(
            envvar="STREAMJOB_OWN_LABELS",
            help="KEY=VALUE,… that select the controller's pods. NetworkPolicies then let only these pods reach the "
            "drivers' control API.",
        ),
    ] = "",
    driver_metrics_from: Annotated[
        str,
        typer.Option(
            envvar="STREAMJOB_DRIVER_METRICS_FROM",
            help="Clients that may read drivers' metrics: a JSON list as in a NetworkPolicy's `from`. Default: all.",
        ),
    ] = "[]",
    probes_port: Annotated[
        int, typer.Option(envvar="STREAMJOB_PROBES_PORT", help="Port of /healthz and /readyz.")
    ] = 8081,
    metrics_port: Annotated[int, typer.Option(envvar="STREAMJOB_METRICS_PORT", help="Port of /metrics.")] = 8080,
    admission_certificate: Annotated[
        Path | None,
        typer.Option(
            envvar="STREAMJOB_ADMISSION_CERTIFICATE",
            help="Directory with tls.crt and tls.key for the admission webhook. Default: no webhook.",
        ),
    ] = None,
    admission_port: Annotated[
        int, typer.Option(envvar="STREAMJOB_ADMISSION_PORT", help="Port of the admission webhook.")
    ] = 8443,
    page_port: Annotated[
        int | None,
        typer.Option(envvar="STREAMJOB_PAGE_PORT", help="Port of the page of all jobs. Default: no page."),
    ] = None,
    page_host: Annotated[
        list[str] | None,
        typer.Option(
            envvar="STREAMJOB_PAGE_HOSTS",
            help="A name that the page is reached by, such as that of an Ingress; may be repeated. Addresses and "
            "localhost always work.",
        ),
    ] = None,
    host: Annotated[str, typer.Option(envvar="STREAMJOB_HOST", help="Address that all ports listen on.")] = "0.0.0.0",
    log_level: Annotated[
        LogLevel, typer.Option(envvar="STREAMJOB_LOG_LEVEL", help="Minimum level of logged messages.")
    ] = LogLevel.INFO,
    log_format: Annotated[
        LogFormat, typer.Option(envvar="STREAMJOB_LOG_FORMAT", help="Text, or one JSON object per line.")
    ] = LogFormat.TEXT,
) -> None:
    """Run the controller of StreamJobs."""
    _set_up_logging(log_level, log_format)
    try:
        lease = None
        if leader_election:
            seconds = _duration("lease-duration", lease_duration)
            lease = LeaseSettings(
                namespace=own_namespace or "default",
                name=lease_name,
                identity=own_name or os.uname().nodename,
                duration=seconds,
                renew_deadline=seconds * 2 / 3,
                retry=seconds * 2 / 15,
            )
        settings = Settings(
            namespaces=_split(namespace or ()),
            lease=lease,
            interval=_duration("interval", interval),
            concurrency=concurrency,
            image=image,
            ambient_credentials=allow_ambient_credentials,
            own_namespace=own_namespace,
            own_labels=_labels(own_labels),
            driver_metrics_from=_peers(driver_metrics_from),
            probes_port=probes_port,
            metrics_port=metrics_port,
            admission_certificate=admission_certificate,
            admission_port=admission_port,
            page_port=page_port,
            page_hosts=_split(page_host or ()),
            host=host,
        )
        code = asyncio.run(run(settings))
    except StreamJobError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    # Threads that still wait for a store must not keep a replica alive that has given up.
    logging.shutdown()
    os._exit(code)


def _duration(option: str, text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise InvalidInput(f"--{option}: {error}", "Write it like 15s or 1m.") from None


def _split(given: list[str] | tuple[()]) -> tuple[str, ...]:
    return tuple(name for each in given for name in each.replace(",", " ").split())


def _labels(text: str) -> dict[str, str]:
    labels = {}
    for pair in filter(None, text.split(",")):
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise InvalidInput(f"{pair!r} is not a label", "Write --own-labels key=value,key=value.")
        labels[key.strip()] = value.strip()
    return labels


def _peers(text: str) -> tuple[dict[str, Any], ...]:
    try:
        peers = json.loads(text or "[]")
    except ValueError:
        peers = None
    if not isinstance(peers, list) or not all(isinstance(each, dict) for each in peers):
        raise InvalidInput(
            f"--driver-metrics-from is {text!r}, which is not a JSON list of objects",
            """Write it as in a NetworkPolicy: [{"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}].""",
        )
    return tuple(peers)


def _set_up_logging(level: LogLevel, form: LogFormat) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        JsonLines() if form is LogFormat.JSON else TextLines("%(asctime)s %(levelname)-7s %(message)s")
    )
    logging.basicConfig(level=level.value.upper(), handlers=[handler], force=True)
    for noisy in ("httpx", "httpcore", "botocore", "kopf", "aiohttp", "kubernetes"):
        logging.getLogger(noisy).setLevel(logging.WARNING if level is not LogLevel.DEBUG else logging.DEBUG)


if __name__ == "__main__":
    app()
