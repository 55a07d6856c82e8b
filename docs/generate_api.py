"""Writes the references of command line, control API and metrics from the code: `python docs/generate_api.py`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast, get_args

from prometheus_client.metrics_core import Metric
from typer.testing import CliRunner

from streamjob.checkpointing_policy import LiveCheckpointingPolicy
from streamjob.cli.main import LAZY, app, load
from streamjob.client.models import CheckpointsView, JobState, JobView
from streamjob.ids import ChainUid, OperatorUid
from streamjob.protocol.coordination.statistics import StatisticsTracker
from streamjob.protocol.coordination.triggers import SnapshotKind
from streamjob.store.base import Store
from streamjob_runtime.control.api.app import create_app
from streamjob_runtime.control.running_job import RunningJob
from streamjob_runtime.monitoring.figure_metrics import Family
from streamjob_runtime.monitoring.metered_store import MeteredStore
from streamjob_runtime.monitoring.metrics import Metrics
from streamjob_runtime.sinks.meter import Call

REFERENCE = Path(__file__).parent / "reference"

_WRITTEN = "<!-- Written by docs/generate_api.py from the code; change it there. -->"

_CLI = f"""\
# Command line

{_WRITTEN}

Standard output is text or, with `--json`, one JSON object per line. Logs and errors go to standard error. A failing
command reports the problem and the fix. Commands end with one of these exit codes:

| code | meaning |
|---|---|
| 0 | done; the job has finished, or stopped as requested |
| 2 | invalid input; nothing was started |
| 3 | cannot restore from the requested snapshot |
| 4 | superseded: another owner holds the job's log |
| 5 | failed |
| 6 | `run --available-now` was stopped before it had read all that was there; repeat it |

`run` needs the extra `runtime`: `pip install 'streamjob[runtime]'`. The commands that talk to a running job find it
through `control.json` in its work directory. Without `--workdir` or `--url`, they use the only running job below
`./.streamjob/work`.
"""

_API = f"""\
# Control API

{_WRITTEN}

HTTP and JSON, served by the process that runs the job: the controller, the job's page and `streamjob status`, `ui`,
`checkpoint`, `savepoint` and `stop` are its clients. It listens on any free port on loopback, or on `STREAMJOB_PORT`;
with `STREAMJOB_HOST` set to `*`, as in a pod, on all addresses. The token is sent in plain HTTP. While the job is
running, `<workdir>/control.json` has the address: `{{"url", "pid", "tokenFile"}}`.

```sh
cd .streamjob/work/departures
url=$(jq -r .url control.json)
curl -H "Authorization: Bearer $(cat token)" $url/v1/job
curl -H "Authorization: Bearer $(cat token)" -X POST $url/v1/checkpoints -d '{{"triggerId": "before-lunch"}}' \\
     -H 'Content-Type: application/json'
curl -H "Authorization: Bearer $(cat token)" $url/v1/triggers/before-lunch
```

- **Authentication**: every request except `/healthz`, `/readyz`, the page's files below `/ui/` and `POST /v1/sessions`
needs `Authorization: Bearer <token>` or `X-Streamjob-Token: <token>`, and gets 401 without it. This includes
`/metrics` (Prometheus: `authorization.credentials_file`). The token is the content of `STREAMJOB_TOKEN_FILE`.
Without that variable, a random token is created in `<workdir>/token`, which only its owner may read.
- **Sessions** are for the job's page: `streamjob ui` gets a code from `POST /v1/sessions/codes`, and the page exchanges
it for a token by `POST /v1/sessions`. A code works once, within 60 s. A session lasts 8 h and gets 403 for all requests
but `GET`, unless the code was for `write`: [decision](../decisions/page-sessions.md).
- **Hosts**: on loopback the API answers only to `127.0.0.1`, `localhost` and `[::1]`; other names get 421.
- **Requests** are answered with 202 and a trigger id before they are done; `GET /v1/triggers/<id>` reports the result.
The caller may choose the id (letters, digits, `.`, `_`, `-`). A request with the same id is the same request, so it is
safe to repeat it after a lost answer.
- **Errors** are `application/problem+json` (RFC 9457) with `title`, `status`, `detail`, often `fix`, and for an invalid
  request `errors`: `[{{"field", "message"}}]`.
- **Units**: unless the name has a unit, times are in seconds since 1970, durations in seconds, sizes in bytes. The
statistics of checkpoints are Flink's: times and durations in ms, -1 for unknown values.
- **Limits**: 128 connections, and 8 more for each executor; at most 64 of them unauthenticated from one address, and
200 new ones per second. If
there are more, the oldest unauthenticated one is closed. An unauthenticated connection gets one answer. Headers are
limited to 5 s and 16 KiB, the rest of a request and its answer to 30 s, a body to 64 KiB. At most 100 requests may be
pending; the next one gets 429, except for a stop.
- New fields may be added: ignore unknown fields. In requests, an unknown field is an error.
- **States** of a job: {", ".join(f"`{state.value}`" for state in JobState)}.
"""

_METRICS = f"""\
# Metrics

{_WRITTEN}

`GET /metrics` in Prometheus' text format: on the port in `STREAMJOB_METRICS_PORT`, without a token, and on the port of
the [control API](control-api.md), with the token. In a cluster, the controller sets the port:
[monitor](../how-to/monitor.md). A process runs one job, so only `streamjob_info` has the job's name. Counters start at
0 with the process. What is not known has no value, and what is so or not is 1 or 0. Metrics are computed at most once a
second.
"""


def render_cli() -> str:
    """Return the reference of the command line."""
    return "\n".join([_CLI, *(f"## streamjob {command}\n\n```\n{_help(command)}\n```\n" for command in _commands())])


def _commands() -> Iterator[str]:
    for info in app.registered_commands:
        name = info.name or ""
        yield name
        if name in LAZY:
            for child in getattr(load(name, LAZY[name]), "commands", ()):
                yield f"{name} {child}"


def _help(command: str) -> str:
    # Typer takes the width of its help from the terminal that it thinks it writes to.
    result = CliRunner().invoke(
        app, [*command.split(), "--help"], env={"COLUMNS": "100", "TERMINAL_WIDTH": "100"}, prog_name="streamjob"
    )
    if result.exit_code != 0:
        raise RuntimeError(f"streamjob {command} --help failed: {result.output}") from result.exception
    return "\n".join(line.rstrip() for line in result.stdout.strip().splitlines())


def render_api() -> str:
    """Return the reference of the control API."""
    control = cast(RunningJob, _Nobody())
    schema = create_app(control, "", metrics=lambda: b"").openapi()
    parts = [_API, "## Routes\n"]
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            parts.append(_route(method, path, operation))
    parts.append("## Objects\n")
    for name, model in schema["components"]["schemas"].items():
        parts.append(_object(name, model))
    return "\n".join(parts)


def _route(method: str, path: str, operation: Mapping[str, Any]) -> str:
    lines = [f"### {method.upper()} {path}\n", f"{operation['description']}\n"]
    if parameters := [each for each in operation.get("parameters", ()) if each["in"] == "query"]:
        lines += ["| parameter | type | meaning |", "|---|---|---|"]
        for each in parameters:
            lines.append(f"| `{each['name']}` | {_type(each['schema'])} | {each['description']} |")
        lines.append("")
    if body := operation.get("requestBody"):
        lines.append(f"Body: {_type(body['content']['application/json']['schema'])}\n")
    lines += ["| status | answer |", "|---|---|"]
    for status, response in sorted(operation["responses"].items()):
        if status == "401":
            continue
        ((media, content),) = response.get("content", {"": {}}).items()
        shape = _type(content["schema"]) if content.get("schema") else f"`{media}`"
        meaning = "" if response["description"] == "Successful Response" else f": {response['description']}"
        lines.append(f"| {status} | {shape}{meaning} |")
    return "\n".join(lines) + "\n"


def _object(name: str, model: Mapping[str, Any]) -> str:
    lines = [f"### {name}\n", f"{' '.join(model.get('description', '').split())}\n"]
    if "enum" in model:
        return "\n".join([*lines, ", ".join(f"`{value}`" for value in model["enum"]) + "\n"])
    lines += ["| field | type | meaning |", "|---|---|---|"]
    for field, schema in model["properties"].items():
        lines.append(f"| `{field}` | {_type(schema)} | {schema.get('description', '')} |")
    return "\n".join(lines) + "\n"


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(option) for option in schema["anyOf"])
    if "const" in schema or "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}" if schema.get("items") else "list"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return f"object of {_type(schema['additionalProperties'])}"
    if "10s" in schema.get("examples", ()):
        return "duration"
    return str(schema.get("type", "any"))


def render_metrics() -> str:
    """Return the reference of the metrics."""
    lines = [_METRICS, "| name | type | labels | meaning |", "|---|---|---|---|"]
    for family in _sample_metrics().registry.collect():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = ", ".join(f"`{label}`" for label in _labels(family))
        lines.append(f"| `{name}` | {family.type} | {labels} | {family.documentation} |")
    return "\n".join(lines) + "\n"


def _labels(family: Metric) -> Iterable[str]:
    if isinstance(family, Family):
        return family.labels
    return dict.fromkeys(label for sample in family.samples for label in sample.labels if label != "le")


def _sample_metrics() -> Metrics:
    job = JobView(state=JobState.RUNNING, name="job", namespace="default", start_time=0, uptime=0)
    checkpoints: CheckpointsView = StatisticsTracker().overview()
    store = cast(Store, _Nobody())
    metrics = Metrics(lambda: job, lambda: checkpoints, store=MeteredStore(store), policy=LiveCheckpointingPolicy)
    metrics.observe_batch(ChainUid("chain"), 0)
    metrics.observe_checkpoint(SnapshotKind.CHECKPOINT, 0, 0)
    for call in get_args(Call):
        metrics.observe_sink(OperatorUid("sink"), call, 0)
    return metrics


class _Nobody:
    """Stands for a job and a store that are not called while their interfaces are described."""

    def __getattr__(self, name: str) -> Any:
        return _Nobody()


TARGETS = {"cli.md": render_cli, "control-api.md": render_api, "metrics.md": render_metrics}


def main() -> None:
    """Write all references."""
    for name, render in TARGETS.items():
        (REFERENCE / name).write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main()
