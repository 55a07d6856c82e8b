"""Runs a command and writes down what it and all its descendants used: `python -m bench.accounting FILE COMMAND…`.

Descendants whose parent ends before them become children of this process, so none escapes the count: the JVM behind
PySpark, its Python workers, and the programs that they start.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36


def main() -> int:
    """Run the command; return its exit code."""
    file, command = Path(sys.argv[1]), sys.argv[2:]
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "orphaned processes cannot be adopted, so they could not be counted")
    begun = time.monotonic()
    code = subprocess.Popen(command).wait()
    wall = time.monotonic() - begun
    try:
        while True:
            os.waitpid(-1, 0)
    except ChildProcessError:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
    file.write_text(json.dumps({"wall": wall, "user": used.ru_utime, "system": used.ru_stime}))
    return code


if __name__ == "__main__":
    sys.exit(main())
