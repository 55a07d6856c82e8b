"""The command `streamjob profile`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from streamjob.cli.control import TokenFile, Url, Workdir, connected, duration
from streamjob.errors import InvalidInput, JobFailed


class UnknownForm(InvalidInput):
    """A profile cannot be written in the form that a file's name asks for."""


class NotWritten(InvalidInput):
    """The file for a profile cannot be written."""


def profile_command(
    url: Url = None,
    workdir: Workdir = None,
    token_file: TokenFile = None,
    seconds: Annotated[
        float, typer.Option(help="How long to record, at most 5m.", parser=duration, metavar="DURATION")
    ] = "30s",  # type: ignore[assignment]
    output: Annotated[
        Path,
        typer.Option(
            help="File for the profile: .svg for a flame graph, .folded for stacks as other tools read them, .json.",
            metavar="FILE",
        ),
    ] = Path("profile.svg"),
    profile: Annotated[
        str | None, typer.Option("--id", help="Write a profile that the job has already, from its page.", metavar="ID")
    ] = None,
) -> None:
    """Record where a running job spends its CPU time: a flame graph of the driver and of each executor."""
    from streamjob.client.flame_graph import folded, headline, hottest, svg
    from streamjob.client.profile_models import MOST_SECONDS, ProfileState, ProfileView
    from streamjob.ids import TriggerId

    forms: dict[str, Callable[[ProfileView], str]] = {
        ".svg": svg,
        ".folded": folded,
        ".json": lambda view: json.dumps(view.model_dump(mode="json")),
    }
    if output.suffix not in forms:
        raise UnknownForm(
            f"{output}: a profile cannot be written as {output.suffix!r}", f"Use one of {', '.join(forms)}."
        )
    if not 1 <= seconds <= MOST_SECONDS:
        raise typer.BadParameter(f"a profile takes from 1s to {MOST_SECONDS / 60:g}m", param_hint="--seconds")
    with connected(url, workdir, token_file) as (client, _):
        if profile is None:
            found = client.start_profile(seconds)
            typer.echo(f"Recording for {seconds:g} seconds", err=True)
        else:
            found = TriggerId(profile)
        # Executors may need a while to count their samples.
        view = client.wait_for_profile(found, timeout=MOST_SECONDS + 150)
    if view.state is ProfileState.FAILED:
        raise JobFailed(f"the profile failed: {view.failure or 'the job gave no reason'}")
    try:
        output.write_text(forms[output.suffix](view), encoding="utf-8")
    except OSError as error:
        raise NotWritten(f"{output} cannot be written: {error.strerror}", f"Ask again with --id {view.id}.") from None
    for process in view.processes:
        typer.echo(headline(process, view.seconds))
        for name, millis in hottest(process, 5):
            typer.echo(f"  {millis / (process.cpu_ms or 1):6.1%}  {name}")
    typer.echo(f"Written to {output}")
