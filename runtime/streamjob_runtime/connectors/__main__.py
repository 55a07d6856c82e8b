"""Fetches connectors ahead of the jobs that need them: `python -m streamjob_runtime.connectors kafka [DIRECTORY]`.

Without a directory they go where jobs of this installation look first.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from streamjob.errors import StreamJobError
from streamjob_runtime.connectors.artifacts import CONNECTORS
from streamjob_runtime.connectors.fetching import Repositories, fetch
from streamjob_runtime.connectors.finding import installed_directory


def main(arguments: Sequence[str]) -> int:
    """Fetch what the arguments name; return the exit code."""
    if not 1 <= len(arguments) <= 2 or arguments[0] not in CONNECTORS:
        print(f"usage: python -m streamjob_runtime.connectors {{{','.join(CONNECTORS)}}} [DIRECTORY]", file=sys.stderr)  # noqa: T201
        return 2
    directory = Path(arguments[1]) if len(arguments) == 2 else installed_directory()
    try:
        fetch(CONNECTORS[arguments[0]], directory, os.environ, Repositories())
    except StreamJobError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return int(error.exit_code)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
