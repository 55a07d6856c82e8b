"""The versions of the stored formats of manifests and log records: which one is written, and which ones are read.

The marker of a claimed snapshot has a version of its own (`streamjob.protocol.log.claiming`), and so have the
records of sinks, beside their models.
"""

from __future__ import annotations

from typing import Literal, get_args

FormatVersion = Literal[1, 2]
FORMAT_VERSION: Literal[2] = 2
"""The version that is written."""
READ_VERSIONS: tuple[int, ...] = get_args(FormatVersion)
