"""The command `streamjob executor` and its options."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Annotated

import typer

from streamjob.cli.log_options import LogFormatOption, logging_as
from streamjob.errors import InvalidInput
from streamjob.telemetry.logs import LogFormat, log_to

_MEMORY = re.compile(r"[1-9]\d*[kmgKMG]?")


class NoMemorySize(InvalidInput):
    """A size of memory is not one as Java takes it."""


def executor(
    driver: Annotated[
        str,
        typer.Option(help="URL of the control API of the job's driver, such as http://flights:8080.", metavar="URL"),
    ],
    name: Annotated[
        str, typer.Option(help="Name of this executor; no other executor of the job has it.", metavar="NAME")
    ],
    work_dir: Annotated[
        Path,
        typer.Option(
            help="Local directory for state and scratch files. If it stays over a restart, less is downloaded.",
            metavar="DIR",
        ),
    ],
    cores: Annotated[int, typer.Option(min=1, help="Tasks at a time.", metavar="N")] = 1,
    memory: Annotated[
        str, typer.Option(help="Size of Java's heap; Python workers and RocksDB come on top.", metavar="SIZE")
    ] = "1g",
    grace: Annotated[
        float,
        typer.Option(
            min=0,
            help="Time that the job has on SIGTERM to take a checkpoint and continue without this executor.",
            metavar="SECONDS",
        ),
    ] = 20.0,
    log_format: LogFormatOption = LogFormat.TEXT,
    with_parent: Annotated[bool, typer.Option("--with-parent", hidden=True)] = False,
) -> None:
    """Run an executor for a job whose driver runs elsewhere.

    It offers itself to the driver again and again, over restarts of the driver, until SIGTERM. Then it waits until its
    state is on other executors; a second SIGTERM ends it at once. Driver and executor need the same secret in the
    environment variable STREAMJOB_EXECUTOR_SECRET, and the same build of streamjob.
    """
    from streamjob_runtime.executors.agent.agent import AgentSettings, run_agent
    from streamjob_runtime.executors.credentials import secret_of

    if _MEMORY.fullmatch(memory) is None:
        raise NoMemorySize(f"--memory is {memory!r}", "write a number and k, m or g, such as 1g")
    if log_format is LogFormat.TEXT:
        log_to(logging.StreamHandler(), log_format)
    with logging_as(log_format):
        run_agent(AgentSettings(driver, name, cores, memory, work_dir, secret_of(), grace), with_parent=with_parent)
