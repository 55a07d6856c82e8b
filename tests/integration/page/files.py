"""The page's files, and the headers that they are served with."""

from __future__ import annotations

from pathlib import Path

import streamjob_runtime

UI = Path(streamjob_runtime.__file__).parent / "control" / "ui"
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
