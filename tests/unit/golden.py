"""Compares what people and programs are shown with golden files, which `make golden` writes anew."""

from __future__ import annotations

import os
from pathlib import Path


def compare(file: Path, text: str) -> None:
    """Fail unless the text is that of the golden file; with STREAMJOB_GOLDEN=write, write it there."""
    shown = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    if os.environ.get("STREAMJOB_GOLDEN") == "write":
        file.write_text(shown, encoding="utf-8")
    assert shown == file.read_text(encoding="utf-8")
