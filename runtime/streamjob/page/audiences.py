"""The audiences of tokens for the controller's page, by which `streamjob ui` and the controller agree."""

from __future__ import annotations

from typing import Final

READ_AUDIENCE: Final = "streamjob.io/page/read"
WRITE_AUDIENCE: Final = "streamjob.io/page/write"
AUDIENCES: Final = (READ_AUDIENCE, WRITE_AUDIENCE)
"""The API server itself does not accept such tokens, so one that leaks is of no use elsewhere."""
