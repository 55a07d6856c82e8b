"""Commands that talk to a running job: status, ui, checkpoint, savepoint, stop."""

from __future__ import annotations

import json
import time
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from streamjob.errors import JobFailed

if TYPE_CHECKING:
    from streamjob.client.client import ControlClient
    from streamjob.client.discovery import Endpoint
    from streamjob.client.models import TriggerView
    from streamjob.ids import TriggerId

# Clients and models are imported inside the commands, to keep `streamjob --help` fast.

Url = Annotated[
    str | None,
    typer.Option(help="Address of the job's control API; needs a token file.", metavar="URL"),
]
Workdir = Annotated[
    Path | None,
    typer.Option(
        help="Work directory of the job. Default: the only running job below ./.streamjob/work.",
        metavar="DIR",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(help="File with the token for --url.", envvar="STREAMJOB_TOKEN_FILE", metavar="FILE"),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the outcome, or only send the request.")]


def duration(text: str) -> float:
    """Return the seconds of a duration such as `10s`. Raises BadParameter."""
    from streamjob.durations import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


Timeout = Annotated[
    float, typer.Option(help="Maximum time to wait for the outcome.", parser=duration, metavar="DURATION")
]
Location = Annotated[
    str | None, typer.Option(help="Directory for the savepoint. Default: the job's own location.", metavar="URI")
]

JOB_PLACE = ""
"""The value of `--savepoint` without a URI: the job's own savepoint directory."""


class StopCommand(TyperCommand):
    """Accepts `--savepoint` both alone and with a URI."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the empty value after a `--savepoint` without a URI."""
        completed: list[str] = []
        for index, argument in enumerate(args):
            completed.append(argument)
            following = args[index + 1] if index + 1 < len(args) else "-"
            if argument == "--savepoint" and following.startswith("-"):
                completed.append(JOB_PLACE)
        return super().parse_args(ctx, completed)


def status(url: Url = None, workdir: Workdir = None, token_file: TokenFile = None, as_json: Json = False) -> None:
    """Show a running job: state, records, checkpoints."""
    with connected(url, workdir, token_file) as (client, _):
        job, checkpoints, diagnosis = client.job(), client.checkpoints(), client.diagnosis()
    if as_json:
        shown = job.model_dump(mode="json") | {
            "checkpoints": checkpoints.model_dump(mode="json", by_alias=True),
            "diagnosis": diagnosis.model_dump(mode="json"),
        }
        _print_json(shown)
        return
    from streamjob.client.console import console_for
    from streamjob.client.terminal import draw_status

    console = console_for()
    console.print(draw_status(job, checkpoints, diagnosis, now=time.time(), width=console.width))


def ui(
    url: Url = None,
    workdir: Workdir = None,
    token_file: TokenFile = None,
    write: Annotated[
        bool, typer.Option("--write", help="Let the page take checkpoints and savepoints, and stop the job.")
    ] = False,
    browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser, or only print its address.")
    ] = True,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace", "-n", help="Open the controller's page of all jobs, as a service account of this namespace."
        ),
    ] = None,
    service_account: Annotated[
        str, typer.Option(help="The service account, with --namespace; the page has its rights.", metavar="NAME")
    ] = "streamjob-viewer",
    controller_namespace: Annotated[
        str, typer.Option(help="Namespace of the controller, with --namespace.", metavar="NAMESPACE")
    ] = "streamjob",
    service: Annotated[
        str, typer.Option(help="Service of the controller's page, with --namespace.", metavar="NAME")
    ] = "streamjob-page",
) -> None:
    """Open the page of a running job, or with --namespace the page of all jobs in a cluster. The address works once,
    within a minute."""

    def show(page: str) -> None:
        typer.echo(page)
        if browser:
            webbrowser.open(page)

    if namespace is not None:
        from streamjob.cli.all_jobs import PlaceOfPage, open_page

        with suppress(KeyboardInterrupt):
            place = PlaceOfPage(controller_namespace, service, url)
            open_page(service_account, namespace, place, write=write, show=show)
        return
    with connected(url, workdir, token_file) as (client, endpoint):
        code = client.new_code(write=write).code
    # Browsers do not send the fragment, so the code is in no log of a server or proxy.
    show(f"{endpoint.url.rstrip('/')}/ui/#code={code}")


def checkpoint(
    url: Url = None,
    workdir: Workdir = None,
    token_file: TokenFile = None,
    as_json: Json = False,
    wait: Wait = True,
    timeout: Timeout = "10m",  # type: ignore[assignment]
) -> None:
    """Take a checkpoint of a running job now."""
    with connected(url, workdir, token_file) as (client, _):
        _report(_outcome(client, client.trigger_checkpoint(), wait, timeout), as_json)


def savepoint(
    url: Url = None,
    workdir: Workdir = None,
    token_file: TokenFile = None,
    location: Location = None,
    as_json: Json = False,
    wait: Wait = True,
    timeout: Timeout = "10m",  # type: ignore[assignment]
) -> None:
    """Take a savepoint of a running job. It is self-contained, and belongs to you."""
    with connected(url, workdir, token_file) as (client, _):
        _report(_outcome(client, client.trigger_savepoint(_absolute(location)), wait, timeout), as_json)


def stop(
    url: Url = None,
    workdir: Workdir = None,
    token_file: TokenFile = None,
    savepoint: Annotated[
        str | None,
        typer.Option(help="Stop with a savepoint, below URI or in the job's own location.", metavar="[URI]"),
    ] = None,
    drain: Annotated[
        bool, typer.Option("--drain", help="Drain the job first, as if all its input had ended: windows fire.")
    ] = False,
    as_json: Json = False,
    wait: Wait = True,
    timeout: Timeout = "10m",  # type: ignore[assignment]
) -> None:
    """Stop a running job with a last checkpoint or savepoint."""
    started = time.monotonic()
    with connected(url, workdir, token_file) as (client, endpoint):
        trigger_id = client.stop(savepoint=savepoint is not None, location=_absolute(savepoint), drain=drain)
        view = _outcome(client, trigger_id, wait, timeout)
        if wait and view.state == "COMPLETED":
            _wait_for_the_end(client, endpoint, max(0.0, timeout - (time.monotonic() - started)))
    _report(view, as_json)


def _absolute(location: str | None) -> str | None:
    """Return a location as a URI: the job's process may have another working directory."""
    from streamjob.store.opening import open_location

    return open_location(location).uri if location else None


@contextmanager
def connected(
    url: str | None, workdir: Path | None, token_file: Path | None
) -> Iterator[tuple[ControlClient, Endpoint]]:
    """Give a client of the running job that the options name, and its endpoint.

    Raises:
        StreamJobError: there is no such job, or no token for it.
    """
    from streamjob.client.client import ControlClient
    from streamjob.client.discovery import find_endpoint

    endpoint = find_endpoint(url=url, workdir=workdir, token_file=token_file)
    with ControlClient(endpoint.url, endpoint.token) as client:
        yield client, endpoint


def _outcome(client: ControlClient, trigger_id: TriggerId, wait: bool, timeout: float) -> TriggerView:
    from streamjob.client.client import Unreachable

    if not wait:
        return client.trigger(trigger_id)
    try:
        return client.wait(trigger_id, timeout=timeout)
    except Unreachable as error:
        raise JobFailed(
            f"the job ended before it reported the outcome of request {trigger_id}: {error.what}",
            "Look for it in the job's log, or with `streamjob snapshots list`.",
        ) from None


def _wait_for_the_end(client: ControlClient, endpoint: Endpoint, timeout: float) -> None:
    from streamjob.client.client import NotDoneInTime, Unreachable
    from streamjob.client.discovery import has_ended

    deadline = time.monotonic() + timeout
    while True:
        try:
            # With a known work directory, wait until the process has released it, so that the job can be started again.
            if has_ended(endpoint.workdir) if endpoint.workdir is not None else client.job().state.terminal:
                return
        except Unreachable:
            return
        if time.monotonic() >= deadline:
            raise NotDoneInTime(
                f"the job is stopped, but its process has not ended after {timeout:g} s",
                "The process is still ending; check its log if it does not end.",
            )
        time.sleep(0.1)


def _report(view: TriggerView, as_json: bool) -> None:
    if as_json:
        _print_json(view.model_dump(mode="json"))
    else:
        typer.echo(_sentence(view))
    if view.state == "FAILED":
        raise JobFailed(f"the {view.kind} failed: {view.failure or 'the job gave no reason'}")


def _sentence(view: TriggerView) -> str:
    if view.state not in ("COMPLETED", "FAILED"):
        return f"{view.kind} {view.trigger_id} is {view.state.value.lower().replace('_', ' ')}"
    if view.state == "FAILED":
        return f"{view.kind} {view.trigger_id} failed"
    number = "" if view.checkpoint is None else f" {view.checkpoint}"
    if view.kind != "stop":
        return f"{view.kind}{number} completed: {view.result}"
    if view.result is None:
        return f"stopped without a last checkpoint: {view.failure or 'none was needed'}"
    return f"stopped with snapshot{number}: {view.result}"


def _print_json(value: dict[str, Any]) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
