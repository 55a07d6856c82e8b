"""The example notebook runs from its first cell to its last, in a kernel of Jupyter, and shows tables."""

from __future__ import annotations

from ast import literal_eval
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

nbclient = pytest.importorskip("nbclient", reason="Jupyter's kernel is not installed: make notebook")
nbformat = pytest.importorskip("nbformat", reason="Jupyter's kernel is not installed: make notebook")

NOTEBOOK = Path(__file__).resolve().parents[3] / "examples" / "notebook" / "clicks.ipynb"


def shown(cell: Any, form: str) -> str:
    """Return what a cell shows, in one form; empty if it shows nothing in it."""
    return "".join(each["data"].get(form, "") for each in cell.outputs if each.output_type == "execute_result")


def test_the_example_defines_previews_runs_stops_and_continues_a_job(tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )

    client.execute()

    code = [each for each in notebook.cells if each.cell_type == "code"]
    sampled, given, begun, progress, first, last = code[2:]
    assert "<td>bob</td>" in shown(sampled, "text/html")
    assert "<td>eve</td><td>2026-01-01T09:00:00Z</td><td>1</td>" in shown(given, "text/html")
    assert "clicks-per-minute: " in shown(begun, "text/html")
    assert "<th>records in</th>" in shown(progress, "text/html")
    ann, bob = ("ann", "2026-01-01T12:00:00.000000Z", 2), ("bob", "2026-01-01T12:00:00.000Z", 1)
    assert literal_eval(shown(first, "text/plain")) == [ann, bob]
    later = ("bob", "2026-01-01T12:01:00.000Z", 2)
    assert literal_eval(shown(last, "text/plain")) == [ann, bob, later]
