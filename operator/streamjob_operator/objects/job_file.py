"""The job of a revision, as its driver is given it: a file in a ConfigMap, and the arguments of `streamjob run`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from streamjob.job.loading.stream_job import OVERRIDING, task_slots
from streamjob.job.loading.yaml_writing import write_yaml
from streamjob_operator.decisions.values.actions import CreateDriver, CreatePod, CreatePreflight
from streamjob_operator.decisions.values.revision import Revision
from streamjob_operator.objects.names import (
    CODE_DIRECTORY,
    DRIVER_ADDRESS,
    JOB_DIRECTORY,
    JOB_FILE,
    WORK_DIRECTORY,
    Object,
    config_map_name,
    metadata,
)
from streamjob_operator.objects.sizes import grace_of_process
from streamjob_operator.objects.spark_settings import spark_settings
from streamjob_operator.resources.base import Metadata
from streamjob_operator.resources.streamjob import StreamJob, StreamJobSpec

_LOCAL = "local://"
_REMOTE = "s3://"


def job_config_map(owner: Metadata, revision: Revision) -> Object:
    """Return the immutable ConfigMap with a revision's job file; it holds no file where the job is an application."""
    spec = revision.spec()
    job = StreamJob(metadata=owner, spec=spec).job_file()
    data = {}
    if job is not None:
        job["sparkConf"] = {**(job.get("sparkConf") or {}), **spark_settings(spec)}
        data[JOB_FILE] = write_yaml(job)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(owner, config_map_name(owner, revision.name)),
        "immutable": True,
        "data": data,
    }


def fetched(spec: StreamJobSpec) -> str | None:
    """Return the URI of an application that is fetched before the job starts, or None."""
    application = spec.main_application_file or ""
    return application if application.startswith(_REMOTE) else None


def arguments(owner: Metadata, spec: StreamJobSpec, action: CreateDriver) -> list[str]:
    """Return the arguments of `streamjob` in the driver's container."""
    run = ["run", *_job(owner, spec), "--quiet", "--workdir", f"{WORK_DIRECTORY}/work"]
    run += ["--attempt", str(action.attempt), *_start(action)]
    run += ["--grace", str(grace_of_process(spec.driver.termination_grace_period_seconds))]
    run += ["--wait-for-start"] if action.waits else []
    run += ["--available-now"] if action.available_now else []
    run += ["--with-standby"] if spec.driver.standby else []
    if spec.executor is not None:
        run += ["--executors", str(spec.instances), "--executor-cores", str(spec.executor.cores)]
        run += ["--executor-address", f"$({DRIVER_ADDRESS})"]
    return run + _place_and_changes(spec)


def check_arguments(owner: Metadata, spec: StreamJobSpec, action: CreatePreflight) -> list[str]:
    """Return the arguments of `streamjob` that check what a driver with `arguments` would do."""
    return ["check", *_job(owner, spec), *_start(action), *_place_and_changes(spec, action.location)]


def _job(owner: Metadata, spec: StreamJobSpec) -> list[str]:
    return [_file(spec), "--namespace", owner.namespace, "--name", owner.name]


def _start(action: CreatePod) -> list[str]:
    flags = {
        "--require-snapshot": action.require_snapshot,
        "--allow-non-restored-state": action.allow_non_restored_state,
        "--strict": action.strict_migration,
    }
    return ["--from", action.restore_from, *(flag for flag, is_set in flags.items() if is_set)]


def _place_and_changes(spec: StreamJobSpec, location: str | None = None) -> list[str]:
    location = location or _location(spec)
    changes = [] if spec.main_application_file is None else _changes(spec)
    place = [] if location is None else ["--location", location]
    return [*place, *(part for change in changes for part in ("--set", change))]


def _file(spec: StreamJobSpec) -> str:
    application = spec.main_application_file
    if application is None:
        return f"{JOB_DIRECTORY}/{JOB_FILE}"
    if fetched(spec) is not None:
        return f"{CODE_DIRECTORY}/{application.rpartition('/')[2]}"
    return application.removeprefix(_LOCAL)


def _location(spec: StreamJobSpec) -> str | None:
    """A job that keeps no state over restarts keeps its checkpoints where its pod keeps the rest."""
    job = spec.job or {}
    named = spec.checkpointing.location or (job.get("checkpointing") or {}).get("location")
    if named is None and spec.main_application_file is None:
        return f"{WORK_DIRECTORY}/snapshots"
    return spec.checkpointing.location


def _changes(spec: StreamJobSpec) -> list[str]:
    """Return the resource's fields for an application's job, in the form of `--set`."""
    over = spec.to_dict()
    values: dict[str, Any] = {key: over[key] for key in OVERRIDING if key in over}
    if (slots := task_slots(over)) is not None:
        values["parallelism"] = slots
    policy: Mapping[str, Any] = over.get("checkpointing", {})
    values |= {f"checkpointing.{key}": value for key, value in policy.items() if key != "location"}
    values |= {f"sparkConf.{key}": value for key, value in spark_settings(spec).items()}
    return [f"{path}={_scalar(value)}" for path, value in values.items()]


def _scalar(value: Any) -> str:
    return yaml.safe_dump(value, default_style='"' if isinstance(value, str) else None, width=1 << 20).split("\n")[0]
