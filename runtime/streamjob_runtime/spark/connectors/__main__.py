"""Downloads connectors before a job needs them: `python -m streamjob_runtime.spark.connectors kafka [DIRECTORY]`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from streamjob.errors import StreamJobError
from streamjob_runtime.spark.connectors.artifacts import CONNECTORS
from streamjob_runtime.spark.connectors.fetching import Repositories, fetch
from streamjob_runtime.spark.connectors.finding import installed_directory


def main(arguments: Sequence[str] | None = None) -> int:
    """Download the connectors in the arguments, by default those of the process; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m streamjob_runtime.spark.connectors", description=__doc__)
    parser.add_argument("connector", choices=list(CONNECTORS), help="the format whose jars are fetched")
    parser.add_argument(
        "directory",
        nargs="?",
        type=Path,
        default=installed_directory(),
        help="their directory; by default the one that jobs of this installation search first",
    )
    options = parser.parse_args(arguments)
    try:
        fetch(CONNECTORS[options.connector], options.directory, os.environ, Repositories())
    except StreamJobError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return int(error.exit_code)
    return 0


if __name__ == "__main__":
    sys.exit(main())
