"""Writes the references of the resources from their models: `python docs/generate_resources.py`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from streamjob_operator.resources import conditions, reasons, rules, snapshot, status
from streamjob_operator.resources.base import MEMORY_PATTERN
from streamjob_operator.resources.crd import crds
from streamjob_operator.resources.schema import structural_schema
from streamjob_operator.resources.snapshot import StreamSnapshotSpec
from streamjob_operator.resources.streamjob import StreamJobSpec

REFERENCE = Path(__file__).parent / "reference"

Schema = Mapping[str, Any]

_WRITTEN = "<!-- Written by docs/generate_resources.py from the models; change it there. -->"

_STREAM_JOB = f"""\
# StreamJob

{_WRITTEN}

A job on the cluster, its settings, and the handling of its state. List them with `kubectl get sj`, or together with
their snapshots with `kubectl get streams`.

```yaml
apiVersion: streamjob.io/v1alpha1
kind: StreamJob
metadata: {{name: departures, namespace: flights}}
spec:
  parallelism: 2
  upgradeMode: savepoint
  checkpointing: {{interval: 30s, location: "s3://snapshots/production"}}
  savepoints: {{location: "s3://snapshots/kept", schedule: 6h}}
  storage: {{region: eu-central-1, credentialsSecretRef: {{name: snapshots}}}}
  driver: {{cores: 2, memory: 2g}}
  job:
    sources:
    - name: flights
      format: csv
      schema: "origin STRING, departed TIMESTAMP, delay INT"
      options: {{path: /data/flights, header: true}}
      watermark: {{column: departed, delay: 1h}}
    operators:
    - name: delays
      inputs: [flights]
      sql: |
        SELECT origin, window.start AS hour, avg(delay) AS delay
        FROM flights GROUP BY origin, window(departed, '1 hour')
    sinks:
    - {{name: report, input: delays, format: parquet, options: {{path: /data/report}}}}
```

`streamjob validate FILE` also accepts such a file. Durations are numbers with a unit: `250ms`, `10s`, `5m`, `1h`, `2d`.
The fields of `spec.job` are those of a [job file](job-file.md); `spec.parallelism`, `spec.maxParallelism`,
`spec.checkpointing` and `spec.sparkConf` override the same fields in `spec.job`.
"""
_STREAM_SNAPSHOT = f"""\
# StreamSnapshot

{_WRITTEN}

A savepoint, or a checkpoint on demand, of a StreamJob. `kubectl get ss`.

```yaml
apiVersion: streamjob.io/v1alpha1
kind: StreamSnapshot
metadata: {{name: before-the-move, namespace: flights}}
spec:
  jobRef: {{name: departures}}
  savepoint: {{location: "s3://snapshots/kept"}}
```

It is taken once. Another StreamJob can start from it with `initialSnapshotRef: {{name: before-the-move}}`, or with its
`path` as `initialSavepointPath`. Periodic checkpoints have no such resource; the [StreamJob](streamjob.md) shows the
last one.
"""
_REASONS = f"""\
# Reasons

{_WRITTEN}

The reasons of conditions and events; `kubectl describe sj NAME` shows both. Alerts may rely on these words. If a pod
cannot start, the reason is Kubernetes' own: `ImagePullBackOff`, `Unschedulable`, and so on. If an action is postponed,
the reason is `UpgradePutOff`, `SuspendPutOff` and so on: the job keeps running, and the action is tried again. For a
job between two states, the state is the reason: `Restoring`, `Restarting`, `Finishing`.
"""
_REFUSED = "The API server enforces these rules:"
# Sections that need no table of their own.
_NO_TABLE = {"spec.job"}
_WORDS = {"array": "list", "boolean": "boolean", "integer": "integer", "object": "mapping", "string": "text"}


def render_stream_job() -> str:
    """Return the reference of StreamJob."""
    spec = structural_schema(StreamJobSpec, with_defaults=True)
    checked = (*rules.STREAM_JOB, *rules.STREAM_JOB_SPEC, *rules.SAVEPOINTS, *rules.POD)
    return _page(
        [
            _STREAM_JOB,
            _rules(checked),
            *_sections(spec, "spec"),
            *_sections(_status("streamjobs"), "status"),
            _meanings("Conditions", "Condition", conditions.MEANINGS)
            + "\n\nFor their reasons see [reasons](reasons.md).",
            _meanings("Lifecycle states", "State", status.MEANINGS),
        ]
    )


def render_stream_snapshot() -> str:
    """Return the reference of StreamSnapshot."""
    return _page(
        [
            _STREAM_SNAPSHOT,
            _rules(rules.SNAPSHOT_SPEC),
            *_sections(structural_schema(StreamSnapshotSpec, with_defaults=True), "spec"),
            *_sections(_status("streamsnapshots"), "status"),
            _meanings("States", "State", snapshot.MEANINGS),
        ]
    )


def render_reasons() -> str:
    """Return the reference of the reasons."""
    return _page(
        [
            _REASONS,
            _meanings("Problems", "Reason", reasons.WRONG),
            _meanings("Normal operation", "Reason", reasons.ON_ITS_WAY),
            _meanings("Single conditions, and StreamSnapshots", "Reason", reasons.ELSEWHERE),
        ]
    )


def _page(parts: Iterable[str]) -> str:
    return "\n".join(part.rstrip() + "\n" for part in parts)


def _status(plural: str) -> Schema:
    (version,) = crds()[f"streamjob.io_{plural}.yaml"]["spec"]["versions"]
    found: Schema = version["schema"]["openAPIV3Schema"]["properties"]["status"]
    return found


def _rules(checked: Iterable[Mapping[str, Any]]) -> str:
    return "\n".join([_REFUSED, "", *dict.fromkeys(f"- {_about(each)}{each['message']}" for each in checked)])


def _about(checked: Mapping[str, Any]) -> str:
    field = checked.get("fieldPath", "").strip(".")
    return "" if checked["message"].startswith(field) else f"`{field}`: "


def _sections(schema: Schema, path: str) -> Iterator[str]:
    """Yield a table of the fields at `path`, and those of all sections below."""
    rows = [_row(path, name, field, required=name in schema.get("required", ())) for name, field in _fields(schema)]
    head = [f"## `{path}`", "", schema.get("description", ""), "", "| Field | Type | Default | |", "|---|---|---|---|"]
    yield "\n".join([*head, *rows])
    for name, field in _fields(schema):
        below = f"{path}.{name}"
        if below in _NO_TABLE:
            continue
        if _is_section(field):
            yield from _sections(field, below)
        elif name == "conditions":
            yield from _sections(field["items"], f"{below}[]")


def _is_section(field: Schema) -> bool:
    return bool(field.get("properties")) and not _is_reference(field)


def _is_reference(field: Schema) -> bool:
    return list(field.get("properties", ())) == ["name"]


def _fields(schema: Schema) -> Iterable[tuple[str, Schema]]:
    properties: Mapping[str, Schema] = schema["properties"]
    return properties.items()


def _row(path: str, name: str, field: Schema, *, required: bool) -> str:
    description = field.get("description", "").replace("|", "\\|")
    if f"{path}.{name}" == "spec.job":
        description += " Fields: [job file](job-file.md)."
    default = "required" if required else f"`{_text(field['default'])}`" if "default" in field else ""
    return f"| `{name}` | {_type(path, name, field)} | {default} | {description} |"


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _type(path: str, name: str, field: Schema) -> str:
    if "enum" in field:
        return ", ".join(f"`{each}`" for each in field["enum"])
    if field.get("format") == "date-time":
        return "time"
    pattern = field.get("pattern", "")
    if pattern == MEMORY_PATTERN:
        return "memory"
    if pattern.startswith("^(0|([0-9]+"):
        return "duration"
    if name == "conditions":
        return f"[list](#{_anchor(f'{path}.{name}[]')})"
    if _is_reference(field):
        return "`{name: …}`"
    if _is_section(field) and f"{path}.{name}" != "spec.job":
        return f"[mapping](#{_anchor(f'{path}.{name}')})"
    return _WORDS.get(field.get("type", ""), "any")


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9-]", "", title.lower())


def _meanings(title: str, column: str, meanings: Mapping[Any, str]) -> str:
    rows = [f"| `{each}` | {meaning} |" for each, meaning in meanings.items()]
    return "\n".join([f"## {title}", "", f"| {column} | |", "|---|---|", *rows])


TARGETS: Mapping[str, Callable[[], str]] = {
    "streamjob.md": render_stream_job,
    "streamsnapshot.md": render_stream_snapshot,
    "reasons.md": render_reasons,
}

if __name__ == "__main__":
    for file, rendered in TARGETS.items():
        (REFERENCE / file).write_text(rendered(), encoding="utf-8")
