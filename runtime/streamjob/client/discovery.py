"""Finds a running job: by its URL, by its work directory, or as the only one below the current directory."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from streamjob.client.models import ControlFile
from streamjob.errors import InvalidInput

CONTROL_FILE = "control.json"
WORK_ROOT = Path(".streamjob/work")


class NoRunningJob(InvalidInput):
    """No running job was found."""


class StaleControlFile(NoRunningJob):
    """The job's process ended without removing its control file: it was killed, or its machine failed."""


class SeveralRunningJobs(InvalidInput):
    """Several jobs are running, and the command does not name one."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a job's control API, and the token for it.

    `workdir` is the job's work directory, if known.
    """

    url: str
    token: str = field(repr=False)
    workdir: Path | None = None


def find_endpoint(
    *, url: str | None = None, workdir: Path | None = None, token_file: Path | None = None, root: Path = WORK_ROOT
) -> Endpoint:
    """Return the endpoint of the selected job.

    Args:
        url: the control API's address; needs `token_file`.
        workdir: the job's work directory.
        token_file: the file with the token for `url`; in a work directory, the job itself names its token file.
        root: the directory in which work directories are searched if neither `url` nor `workdir` is given.

    Raises:
        NoRunningJob, StaleControlFile, SeveralRunningJobs: as their names say.
        InvalidInput: options exclude each other, or a file cannot be read.
    """
    if url is not None:
        if workdir is not None:
            raise InvalidInput("--url and --workdir were both given", "Use one of them.")
        if token_file is None:
            raise InvalidInput(
                f"no token for the job at {url}", "Give --token-file, or name the file in STREAMJOB_TOKEN_FILE."
            )
        return Endpoint(url=url, token=_read_token(token_file))
    if workdir is None:
        workdir = _only_running(root)
    control = read_control_file(workdir)
    return Endpoint(url=control.url, token=_read_token(Path(control.token_file)), workdir=workdir)


def read_control_file(workdir: Path) -> ControlFile:
    """Return the control file of the job that runs in `workdir`.

    Raises:
        NoRunningJob: there is none.
        StaleControlFile: there is one, but the process that wrote it has ended.
        InvalidInput: it cannot be read.
    """
    path = workdir / CONTROL_FILE
    try:
        control = ControlFile.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise NoRunningJob(
            f"no job is running in {workdir}: it has no {CONTROL_FILE}",
            "Start the job with `streamjob run`, or give the --workdir of one that runs.",
        ) from None
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror}", "Run the command as the user that runs the job.") from None
    except ValidationError:
        raise InvalidInput(f"{path} is not a control file of a job", "Remove it, if no job runs there.") from None
    if not _runs(control.pid):
        raise StaleControlFile(
            f"the job in {workdir} is not running: its process {control.pid} ended without cleaning up",
            "Start it again with `streamjob run`; it continues from its last checkpoint.",
        )
    return control


def has_ended(workdir: Path) -> bool:
    """Return whether no job is running in `workdir`."""
    try:
        read_control_file(workdir)
    except NoRunningJob:
        return True
    return False


def _only_running(root: Path) -> Path:
    running: list[Path] = []
    stale: StaleControlFile | None = None
    for path in sorted(root.glob(f"*/{CONTROL_FILE}")):
        try:
            read_control_file(path.parent)
        except StaleControlFile as error:
            stale = error
        else:
            running.append(path.parent)
    if len(running) == 1:
        return running[0]
    if running:
        names = ", ".join(path.name for path in running)
        raise SeveralRunningJobs(
            f"{len(running)} jobs are running below {root}: {names}",
            f"Say which one is meant: --workdir {running[0]}",
        )
    if stale is not None:
        raise stale
    raise NoRunningJob(
        f"no job is running below {root.absolute()}",
        "Give --workdir or --url, or change to the directory of the job's file.",
    )


def _read_token(path: Path) -> str:
    fix = "Give the --token-file of the job, as the user that runs it."
    try:
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not ASCII text"
        raise InvalidInput(f"token file {path}: {reason}", fix) from None
    # An error about a header that cannot be sent would quote it, including the token.
    if not token.isprintable() or not token or " " in token:
        raise InvalidInput(f"token file {path}: it holds no token, which is one word", fix)
    return token


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
