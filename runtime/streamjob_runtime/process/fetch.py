"""Downloads a job's file before the job starts.

`python -m streamjob_runtime.process.fetch s3://bucket/path/job.py DIRECTORY`
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from streamjob.errors import StreamJobError
from streamjob.ids import Key
from streamjob.store.opening import open_location


def fetch(uri: str, directory: Path, environment: Mapping[str, str] | None = None) -> Path:
    """Download a file and return its path.

    Args:
        uri: `s3://bucket/path/name`.
        directory: the directory for the file; created if necessary.
        environment: variables with the settings of S3; None for this process's.

    Raises:
        StreamJobError: the file does not exist, or S3 does not answer.
    """
    parent, _, name = uri.rpartition("/")
    directory.mkdir(parents=True, exist_ok=True)
    store = open_location(parent).store(environment)
    try:
        store.download(Key(name), directory / name)
    finally:
        store.close()
    return directory / name


def main(arguments: Sequence[str]) -> int:
    """Download the file in the arguments; return the exit code."""
    uri, directory = arguments
    try:
        fetch(uri, Path(directory))
    except StreamJobError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return int(error.exit_code)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
