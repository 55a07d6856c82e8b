"""The command `streamjob run`: its options. What it does is imported when it is called."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streamjob.protocol.restore import ClaimMode


def run(
    file: Annotated[Path, typer.Argument(help="The job: YAML, a StreamJob resource, or Python that defines `job`.")],
    location: Annotated[str | None, typer.Option(help="Where checkpoints are kept: a path, file:/// or s3://.")] = None,
    namespace: Annotated[str | None, typer.Option(help="The job's namespace in the store.")] = None,
    name: Annotated[str | None, typer.Option(help="The job's name. Default: the file's.")] = None,
    restore_from: Annotated[
        str, typer.Option("--from", help="latest, none, or the URI of a snapshot's manifest.")
    ] = "latest",
    claim_mode: Annotated[ClaimMode, typer.Option(help="Who owns the snapshot from now on.")] = ClaimMode.CLAIM,
    allow_non_restored_state: Annotated[
        bool, typer.Option("--allow-non-restored-state", help="Give up state of operators that the job has no more.")
    ] = False,
    require_snapshot: Annotated[bool, typer.Option("--require-snapshot", help="Do not start from nothing.")] = False,
    attempt: Annotated[int, typer.Option(min=0, help="Number of this attempt; exit 4 if a higher one was.")] = 0,
    workdir: Annotated[Path | None, typer.Option(help="Local directory of the running job.")] = None,
    parallelism: Annotated[int | None, typer.Option(min=1, help="Task slots.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="PATH=VALUE: change a field of the job.")] = None,
    grace: Annotated[float, typer.Option(min=0, help="Seconds for the last checkpoint after SIGTERM.")] = 30.0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show nothing but errors.")] = False,
) -> None:
    """Run a job on an embedded Spark, from its latest checkpoint."""
    from streamjob_runtime.process import ProcessOptions, run_process

    overrides = list(set_ or ())
    if parallelism is not None:
        overrides.append(f"parallelism={parallelism}")
    options = ProcessOptions(
        file=file,
        overrides=tuple(overrides),
        location=location,
        namespace=namespace,
        name=name,
        restore_from=restore_from,
        claim_mode=claim_mode,
        require_snapshot=require_snapshot,
        allow_non_restored_state=allow_non_restored_state,
        attempt=attempt,
        workdir=workdir,
        grace=grace,
        quiet=quiet,
    )
    if code := run_process(options):
        raise typer.Exit(int(code))
