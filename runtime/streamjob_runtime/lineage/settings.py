"""The settings of lineage: OpenLineage's environment variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from streamjob.durations import parse_duration
from streamjob.errors import InvalidInput

_HOUR = 3600.0
_ENDPOINT = "api/v1/lineage"


class InvalidLineageSetting(InvalidInput):
    """An environment variable of OpenLineage has no valid value."""


class Parent(NamedTuple):
    """The run that started this one, such as that of a task of Airflow."""

    namespace: str
    job: str
    run: str


def no_address() -> InvalidLineageSetting:
    """Return the error of an address that is none."""
    return InvalidLineageSetting("OPENLINEAGE_URL is not an address", "write it like http://marquez:5000")


@dataclass(frozen=True, slots=True)
class LineageSettings:
    """Where events go, and how often.

    Args:
        url: of the receiver's endpoint.
        api_key: the bearer token; None for none.
        namespace: OpenLineage's namespace of the job; None for the job's own.
        interval: seconds between two RUNNING events.
        parent: the run that started this one.
    """

    url: str
    api_key: str | None = field(default=None, repr=False)
    namespace: str | None = None
    interval: float = _HOUR
    parent: Parent | None = None


def lineage_settings(environ: Mapping[str, str]) -> LineageSettings | None:
    """Return the settings, or None if the environment asks for no events.

    Raises:
        InvalidLineageSetting: a variable has no valid value.
    """
    url = environ.get("OPENLINEAGE_URL", "").strip()
    if not url or environ.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return None
    if not url.lower().startswith(("http://", "https://")):
        raise no_address()
    written = environ.get("STREAMJOB_LINEAGE_INTERVAL", "").strip()
    try:
        interval = parse_duration(written) if written else _HOUR
    except ValueError as error:
        raise InvalidLineageSetting(f"STREAMJOB_LINEAGE_INTERVAL: {error}", "write it like 1h") from None
    if interval < 1:
        raise InvalidLineageSetting("STREAMJOB_LINEAGE_INTERVAL is shorter than a second", "write it like 1h")
    endpoint = environ.get("OPENLINEAGE_ENDPOINT", "").strip().strip("/") or _ENDPOINT
    return LineageSettings(
        url=f"{url.rstrip('/')}/{endpoint}",
        api_key=environ.get("OPENLINEAGE_API_KEY", "").strip() or None,
        namespace=environ.get("OPENLINEAGE_NAMESPACE", "").strip() or None,
        interval=interval,
        parent=_parent(environ.get("OPENLINEAGE_PARENT_ID", "").strip()),
    )


def _parent(written: str) -> Parent | None:
    """Return the run that a text names as `namespace/job/run`, as OpenLineage's integrations write it."""
    if not written:
        return None
    rest, _, run = written.rpartition("/")
    namespace, _, job = rest.rpartition("/")
    try:
        import uuid

        run = str(uuid.UUID(run))
    except ValueError:
        run = ""
    if not (namespace and job and run):
        raise InvalidLineageSetting(
            f"OPENLINEAGE_PARENT_ID is {written!r}", "write it as namespace/job/run, with the run's UUID"
        )
    return Parent(namespace, job, run)
