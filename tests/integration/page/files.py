"""The page's files, and the headers that they are served with."""

from __future__ import annotations

from streamjob.page.files import FILES as UI
from streamjob.page.files import HEADERS as OWN

HEADERS = {**OWN, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}

__all__ = ["HEADERS", "UI"]
