"""A job's servers without a job: `python -m bench.hostile_decoy` prints their two addresses and serves until killed."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

from tests.integration.api.served import ServedJob

from streamjob_runtime.control.api.monitoring import MonitoringServer
from streamjob_runtime.control.api.server import ControlServer

_METRICS = b"streamjob_figure 1\n" * 200


def _metrics() -> bytes:
    return _METRICS


def main() -> None:
    """Serve."""
    with (
        tempfile.TemporaryDirectory() as directory,
        ControlServer(ServedJob(), Path(directory), metrics=_metrics) as control,
        MonitoringServer(ServedJob(), metrics=_metrics, port=0) as monitoring,
    ):
        print(control.url.removeprefix("http://"), monitoring.url.removeprefix("http://"), flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
