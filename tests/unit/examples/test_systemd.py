"""The unit for systemd stops a job with a last checkpoint, and starts it again only if that may help."""

from __future__ import annotations

import shlex
from pathlib import Path

from streamjob.errors import ExitCode
from streamjob_runtime.process.run import ProcessOptions

UNIT = Path(__file__).parents[3] / "examples" / "systemd" / "streamjob@.service"


def settings() -> dict[str, str]:
    lines = [line for line in UNIT.read_text().splitlines() if "=" in line and not line.startswith("#")]
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def test_only_the_driver_is_asked_to_stop_and_has_more_time_than_its_grace() -> None:
    unit, command = settings(), shlex.split(settings()["ExecStart"])

    assert unit["KillMode"] == "mixed"
    grace = float(command[command.index("--grace") + 1])
    assert grace == ProcessOptions(file=UNIT).grace
    assert float(unit["TimeoutStopSec"]) >= grace + 30


def test_a_start_that_would_end_in_the_same_way_is_not_repeated() -> None:
    never = {int(code) for code in settings()["RestartPreventExitStatus"].split()}

    assert never == {ExitCode.INVALID_INPUT, ExitCode.CANNOT_RESTORE, ExitCode.SUPERSEDED}
