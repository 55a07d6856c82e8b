"""What the documents promise about the repository."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from streamjob.job.load import load_job

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

_LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")


@pytest.mark.parametrize("document", [str(path.relative_to(ROOT)) for path in DOCUMENTS])
def test_every_link_of_a_document_leads_somewhere(document: str) -> None:
    file = ROOT / document
    missing = [link for link in _LINK.findall(file.read_text()) if not (file.parent / link).exists()]

    assert missing == []


def test_every_decision_is_in_the_index() -> None:
    decisions = ROOT / "docs" / "decisions"
    listed = set(_LINK.findall((decisions / "README.md").read_text()))

    assert listed == {file.name for file in decisions.glob("*.md")} - {"README.md"}


def test_the_job_of_the_readme_is_valid(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="the job's functions import it")
    (job,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (tmp_path / "readme_job.py").write_text(job)

    spec = load_job(tmp_path / "readme_job.py").spec

    assert spec.name == "departures"
    assert spec.sink("report").delivery == "exactly-once"
    assert len(job.splitlines()) <= 24


def test_the_targets_that_the_documents_name_exist() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    call = re.compile(r"(?:`|^)make ([a-z0-9-]+)", re.MULTILINE)
    named = {name for file in DOCUMENTS for name in call.findall(file.read_text())}

    assert named
    assert named <= targets
