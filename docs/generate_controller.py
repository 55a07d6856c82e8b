"""Writes the reference of the controller's process from the code: `python docs/generate_controller.py`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import typer.main
from typer.core import TyperOption

from streamjob_operator.__main__ import app
from streamjob_operator.metrics import JobSample, Metrics, ScalingSample

TARGET = Path(__file__).parent / "reference" / "controller.md"

_HEAD = """# The controller's process

<!-- Written by docs/generate_controller.py from the code; change it there. -->

`python -m streamjob_operator`, the command of the controller's image. The [chart](../how-to/install-the-controller.md)
sets its options. In a pod it uses the pod's service account, elsewhere `KUBECONFIG`, so you can run a controller
outside a cluster: `python -m streamjob_operator --namespace mine --no-leader-election`.

Any number of replicas may run: a Lease elects one leader, the others are on standby. A leader that is asked to stop
hands the Lease over at once; one that dies is replaced after the lease's duration. A replica that cannot renew its
lease stops acting before another may begin. Exit codes: 0 stopped on request, 2 invalid settings, 5 lease lost or
failure.

## Settings
"""

_PROBES = """
## Probes

| path | answers 200 while |
|---|---|
| `/healthz` | the watches deliver the changes that listings show |
| `/readyz` | the process runs, as leader or on standby |

Every minute, the leader lists everything. If a watch has not delivered a listed version after 150 s, or if listing has
failed for five minutes, `/healthz` fails, so that the process is replaced.

## Admission webhook

With `--admission-certificate`, every replica answers `POST /streamjobs` over HTTPS: an AdmissionReview of
`admission.k8s.io/v1`. A StreamJob that is created, or whose spec is changed, is denied if the controller would treat
its spec as invalid; the message lists the problems, as `streamjob validate` does. Everything else is allowed. A spec
that is not checked within four fifths of the API server's timeout is allowed with a warning, and the controller checks
it later. Requests are limited to 4 MiB. The certificate is read again when its files change.

## Metrics

`GET /metrics`, in Prometheus' text format, without a token. A job's own metrics are those of [its driver](metrics.md).

| name | type | labels | meaning |
|---|---|---|---|
"""


def options() -> Iterator[str]:
    """Yield the rows of the settings."""
    yield "| option | variable | default | meaning |"
    yield "|---|---|---|---|"
    for each in typer.main.get_command(app).params:
        if not isinstance(each, TyperOption) or each.name == "help":
            continue
        names = "`, `".join([*each.opts, *each.secondary_opts])
        default = "" if each.default in (None, "") or "image" in each.opts[0] else f"`{_plain(each.default)}`"
        yield f"| `{names}` | `{each.envvar}` | {default} | {each.help} |"


def metrics() -> Iterator[str]:
    """Yield the rows of the metrics."""
    found = Metrics()
    for moved in (None, (0.0, "Restart")):
        scaling = ScalingSample(1, recommended=1, arrival_rate=0.0, capacity=0.0, lag=0.0, moved=moved)
        found.job("a", "b", JobSample("STABLE", checkpointed=0.0, scaling=scaling))
    found.request("get", "pods", 0.1)
    found.control("job", 0.1)
    found.reconcile_errors.labels("x")
    found.actions.labels("x")
    for family in sorted(found.registry.collect(), key=lambda family: family.name):
        own = {name for sample in family.samples for name in sample.labels} - {"le"}
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = ", ".join(f"`{label}`" for label in sorted(own))
        yield f"| `{name}` | {family.type} | {labels} | {family.documentation} |"


def render() -> str:
    """Return the document."""
    return "\n".join([_HEAD, *options(), _PROBES.rstrip("\n"), *metrics(), ""])


def _plain(value: object) -> str:
    return (
        str(getattr(value, "value", value)).lower() if isinstance(value, bool) else str(getattr(value, "value", value))
    )


if __name__ == "__main__":
    TARGET.write_text(render())
