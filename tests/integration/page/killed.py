"""Serves a job until it is killed: `python -m tests.integration.page.killed WORKDIR PORT`."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from tests.integration.api.served import ServedJob, metrics_text

from streamjob_runtime.control.api.server import ControlServer

if __name__ == "__main__":
    workdir, port = Path(sys.argv[1]), int(sys.argv[2])
    ControlServer(ServedJob(prompt=True), workdir, metrics=metrics_text, port=port).start()
    threading.Event().wait()
