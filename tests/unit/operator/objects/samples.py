"""StreamJobs to build manifests from."""

from __future__ import annotations

from typing import Any

from streamjob_operator.decisions.values.actions import CreateDriver
from streamjob_operator.decisions.values.revision import Revision, revision_of
from streamjob_operator.objects import driver_pod
from streamjob_operator.resources.base import Metadata
from streamjob_operator.resources.streamjob import StreamJobSpec

OWNER = Metadata(name="views", namespace="shop", uid="0f3b6a52-7f0e-4f7e-8a53-8f2f6f7f0d11", generation=3)

JOB: dict[str, Any] = {
    "sources": [{"name": "seen", "format": "csv", "schema": "page STRING", "options": {"path": "/data/seen"}}],
    "sinks": [{"name": "report", "input": "seen", "format": "json", "options": {"path": "/data/report"}}],
}


def revision(**spec: Any) -> Revision:
    """Return the revision of a spec; fields are in camelCase."""
    content = {"checkpointing": {"location": "s3://state/jobs"}, **spec}
    if "mainApplicationFile" not in content:
        content.setdefault("job", JOB)
    return revision_of(OWNER.name, StreamJobSpec.model_validate(content))


def action(of: Revision, **changes: Any) -> CreateDriver:
    """Return the action that creates the driver of the third attempt."""
    return CreateDriver(revision=of.name, **{"attempt": 3, **changes})


def pod(*, start: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """Return the driver's pod of a spec."""
    of = revision(**spec)
    return driver_pod(OWNER, of, action(of, **(start or {})), default_image="runtime:1")


def container(built: dict[str, Any]) -> dict[str, Any]:
    """Return the job's container of a pod."""
    containers = [each for each in built["spec"]["containers"] if isinstance(each, dict)]
    (found,) = [each for each in containers if each.get("name") == "streamjob"]
    return dict(found)


def variables(built: dict[str, Any]) -> dict[str, Any]:
    """Return the variables of the job's container: values, or where they come from."""
    named = [each for each in container(built)["env"] if isinstance(each, dict) and isinstance(each.get("name"), str)]
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in named}


def argument(built: dict[str, Any], option: str) -> str:
    """Return the value of an option of `streamjob run`."""
    arguments = container(built)["args"]
    return str(arguments[arguments.index(option) + 1])
