"""The option for the log format, and how a command that logs ends with an error."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from streamjob.errors import ExitCode, StreamJobError
from streamjob.telemetry.logs import VARIABLE, LogFormat, log_to

LogFormatOption = Annotated[
    LogFormat,
    typer.Option("--log-format", envvar=VARIABLE, help="Format of the log: text, or json for one object per line."),
]


@contextmanager
def logging_as(form: LogFormat) -> Iterator[None]:
    """Run a command that logs in a format, and so do the processes that it starts.

    With JSON, its error is logged, too. With text, the command sets up its log by itself, and the caller shows errors.
    """
    os.environ[VARIABLE] = form.value
    if form is LogFormat.TEXT:
        yield
        return
    log_to(logging.StreamHandler(), form)
    log = logging.getLogger("streamjob")
    try:
        yield
    except StreamJobError as error:
        log.error("%s", error)
        raise typer.Exit(int(error.exit_code)) from None
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:
        log.error("The process has ended with an error: %s", error, exc_info=error)
        raise typer.Exit(int(ExitCode.FAILED)) from None
