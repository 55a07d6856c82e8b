"""Compares what a person sees with files in `golden/`; `make golden` writes them anew."""

from __future__ import annotations

import os
from pathlib import Path

GOLDEN = Path(__file__).parent / "golden"


def compare(name: str, text: str) -> None:
    """Fail unless the text is that of the golden file of this name; with STREAMJOB_GOLDEN=write, write it there."""
    file = GOLDEN / f"{name.replace(' ', '-')}.txt"
    shown = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    if os.environ.get("STREAMJOB_GOLDEN") == "write":
        file.write_text(shown, encoding="utf-8")
    assert shown == file.read_text(encoding="utf-8")
