"""The command `streamjob run` and its options. Its implementation is imported when it is called."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from streamjob.cli.job_files import FileArgument, FilesOption, SetOption, VarOption, files_of
from streamjob.cli.log_options import LogFormatOption, logging_as
from streamjob.cli.store_options import (
    AllowNonRestoredStateOption,
    LocationOption,
    NameOption,
    NamespaceOption,
    RequireSnapshotOption,
    StrictOption,
)
from streamjob.errors import ExitCode, InvalidInput
from streamjob.protocol.log.restore import LATEST, ClaimMode
from streamjob.telemetry.logs import LogFormat


class TwoParallelisms(InvalidInput):
    """The number of task slots is given twice."""


class NothingToStandBy(InvalidInput):
    """A process is to stand by for a job that is taken over in another way."""


class CannotWaitForStart(InvalidInput):
    """A process is to wait for its start that could not be prepared for it."""


def run(
    file: FileArgument = None,
    files: FilesOption = None,
    location: LocationOption = None,
    namespace: NamespaceOption = None,
    name: NameOption = None,
    restore_from: Annotated[
        str,
        typer.Option(
            "--from",
            help="Snapshot to start from. latest: the last completed checkpoint, if there is one; none: start without "
            "state; or a snapshot, by URI or path or, for one of this job, as checkpoints/<epoch>-<id>. Anything but "
            "the last completed checkpoint makes a fork: output published since then stays, and is published again. "
            "spark:DIRECTORY: the checkpoint of a stopped plain Structured Streaming query, or those of several by "
            "spark:CHAIN=DIRECTORY,CHAIN=DIRECTORY; once taken over, the last completed checkpoint.",
            metavar="SNAPSHOT",
        ),
    ] = "latest",
    claim_mode: Annotated[
        ClaimMode,
        typer.Option(
            help="Owner of the snapshot from now on. claim: this job, and the job that wrote it does not delete it; "
            "no-claim: its writer, as before, and this job's first checkpoint is a full one."
        ),
    ] = ClaimMode.CLAIM,
    allow_non_restored_state: AllowNonRestoredStateOption = False,
    require_snapshot: RequireSnapshotOption = False,
    strict: StrictOption = False,
    attempt: Annotated[
        int,
        typer.Option(
            min=0,
            help="For controllers: the number of this start. Ends with exit code 4 if a higher one has run.",
            metavar="N",
        ),
    ] = 0,
    workdir: Annotated[
        Path | None,
        typer.Option(
            help="Local directory of the running job; nothing in it is needed later. Default: .streamjob/work/<name> "
            "next to the file.",
            metavar="DIR",
        ),
    ] = None,
    parallelism: Annotated[
        int | None, typer.Option(min=1, help="Task slots: how many tasks run at once.", metavar="N")
    ] = None,
    max_parallelism: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="State partitions, the upper bound of --parallelism. State with another number is rewritten first.",
            metavar="N",
        ),
    ] = None,
    executors: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Run the job on this many Spark executors in processes of their own, instead of in this one.",
            metavar="N",
        ),
    ] = None,
    executor_cores: Annotated[
        int,
        typer.Option(min=1, help="Tasks at a time of each executor.", metavar="N"),
    ] = 1,
    executor_memory: Annotated[
        str, typer.Option(help="Size of Java's heap in each executor that is started here.", metavar="SIZE")
    ] = "1g",
    executor_address: Annotated[
        str | None,
        typer.Option(
            help="Start no executors: they are started elsewhere by `streamjob executor`, and reach this process at "
            "this address, on the port of the control API, 7078 and 7079.",
            metavar="HOST",
        ),
    ] = None,
    executors_share_files: Annotated[
        bool,
        typer.Option(
            "--executors-share-files",
            help="Local paths of sources and sinks are on a file system that this process shares with its executors.",
        ),
    ] = False,
    set_: SetOption = None,
    variables: VarOption = None,
    standby: Annotated[
        bool,
        typer.Option(
            "--standby",
            help="Start Spark, keep the newest checkpoint at hand, and wait until the process has died that runs the "
            "job in the same work directory; then continue the job.",
        ),
    ] = False,
    with_standby: Annotated[
        bool,
        typer.Option(
            "--with-standby",
            help="Run the job in a child process, and keep a hot standby beside it.",
        ),
    ] = False,
    wait_for_start: Annotated[
        bool,
        typer.Option(
            "--wait-for-start",
            help="For controllers: start Spark, keep the newest checkpoint at hand, and wait for `POST /v1/start` of "
            "the control API; then run the job from its last checkpoint. Nothing is claimed and no record is "
            "processed before.",
        ),
    ] = False,
    available_now: Annotated[
        bool,
        typer.Option(
            "--available-now",
            help="Read what the sources have now, take a last checkpoint, and end; the next run goes on from there. "
            "Windows stay open.",
        ),
    ] = False,
    grace: Annotated[
        float,
        typer.Option(
            min=0,
            help="Time limit for the last checkpoint after SIGTERM or Ctrl-C, in seconds. A second signal ends the "
            "process at once.",
            metavar="SECONDS",
        ),
    ] = 30.0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress, only warnings and errors.")] = False,
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Run a job on an embedded Spark, from its latest checkpoint."""
    from streamjob_runtime.process.termination import TerminationLog, leave_on_sigterm

    # First, since the other imports take seconds.
    leave_on_sigterm(TerminationLog.from_environment(os.environ), ExitCode.of_stop(available_now=available_now))
    from streamjob_runtime.executors.driver.options import ExecutorOptions
    from streamjob_runtime.process.run import ProcessOptions, run_process

    overrides = list(set_ or ())
    if parallelism is not None:
        overrides.append(f"parallelism={parallelism}")
    if max_parallelism is not None:
        overrides.append(f"maxParallelism={max_parallelism}")
    on_executors = None
    if executors is not None:
        if parallelism is not None:
            raise TwoParallelisms(
                "--parallelism is given with --executors",
                "leave it out: a job on executors has as many task slots as they have cores",
            )
        if standby or with_standby:
            raise NothingToStandBy(
                "a standby is asked for with --executors",
                "leave it out: executors keep their files when a driver dies, and the next driver continues with them",
            )
        overrides.append(f"parallelism={executors * executor_cores}")
        on_executors = ExecutorOptions(
            executors, executor_cores, executor_memory, executor_address, executors_share_files
        )
    if available_now and (standby or with_standby):
        raise NothingToStandBy(
            "a standby is asked for with --available-now",
            "leave it out: after a crash, repeat the command, and the run continues from its last checkpoint",
        )
    if wait_for_start and (available_now or executors is not None or standby or restore_from != LATEST):
        raise CannotWaitForStart(
            "--wait-for-start is given with --available-now, --executors, --standby, or a --from that is not latest",
            "leave one of them out: a process that waits prepares for the newest checkpoint of a job on one machine",
        )
    path, overlays = files_of(file, files)
    options = ProcessOptions(
        file=Path(path),
        overlays=overlays,
        overrides=tuple(overrides),
        variables=tuple(variables or ()),
        location=location,
        namespace=namespace,
        name=name,
        restore_from=restore_from,
        claim_mode=claim_mode,
        require_snapshot=require_snapshot,
        allow_non_restored_state=allow_non_restored_state,
        strict=strict,
        attempt=attempt,
        workdir=workdir,
        grace=grace,
        quiet=quiet,
        executors=on_executors,
        standby=standby,
        wait_for_start=wait_for_start,
        available_now=available_now,
    )
    with logging_as(log_format):
        if with_standby:
            from streamjob_runtime.process.pair import run_pair

            code = run_pair(options)
        else:
            code = int(run_process(options))
        if code:
            raise typer.Exit(code)
