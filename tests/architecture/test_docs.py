"""The documents' claims about the repository are true."""

from __future__ import annotations

import re
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from streamjob import Job
from streamjob.cli.init import first_job
from streamjob.job.loading.load import load_job
from streamjob.job.model.spec import JobSpec

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


def test_the_job_of_the_readme_is_the_one_that_init_writes() -> None:
    (job,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)

    assert job == dict(first_job())["job.py"].decode()
    assert len(job.splitlines()) <= 24


def test_the_yaml_and_the_python_of_the_job_files_reference_are_the_same_job(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "reference" / "job-file.md").read_text()
    for kind, name in (("yaml", "job.yaml"), ("python", "reference_job.py")):
        (block,) = re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)
        (tmp_path / name).write_text(block)

    in_yaml, in_python = (load_job(tmp_path / name).spec for name in ("job.yaml", "reference_job.py"))

    assert _with_one_spelling_of_sql(in_yaml) == _with_one_spelling_of_sql(in_python)


def _with_one_spelling_of_sql(spec: JobSpec) -> dict[str, Any]:
    data: dict[str, Any] = spec.model_dump(by_alias=True)
    for operator in data["operators"]:
        operator["sql"] = " ".join(operator["sql"].replace('"', "'").split())
    return data


def test_the_table_of_python_calls_has_every_argument() -> None:
    text = (ROOT / "docs" / "reference" / "job-file.md").read_text()
    rows = dict(re.findall(r"^\| `@?(?:job\.)?(\w+)\([^|]*\| (.*) \|$", text, re.MULTILINE))
    calls: dict[str, Callable[..., Any]] = {
        "Job": Job,
        "source": Job.source,
        "operator": Job.operator,
        "sql": Job.sql,
        "sink": Job.sink,
    }

    for name, call in calls.items():
        arguments = {each.name for each in signature(call).parameters.values() if each.kind is each.KEYWORD_ONLY}
        assert arguments <= set(re.findall(r"`(\w+)`", rows[name])), name


def test_the_targets_that_the_documents_name_exist() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    call = re.compile(r"(?:`|^)make ([a-z0-9-]+)", re.MULTILINE)
    named = {name for file in DOCUMENTS for name in call.findall(file.read_text())}

    assert named
    assert named <= targets


def test_the_modules_that_the_architecture_page_names_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    packages = ("runtime", "runtime/streamjob", "runtime/streamjob_runtime", "operator", "operator/streamjob_operator")
    roots = [ROOT, *(ROOT / package for package in packages)]
    named = set(re.findall(r"`([a-z_/]+(?:\.py|/))", text))

    assert len(named) > 40
    assert {name for name in named if not any((root / name).exists() for root in roots)} == set()


@pytest.mark.parametrize("package", ["runtime/streamjob_runtime", "runtime/streamjob", "operator/streamjob_operator"])
def test_the_architecture_page_names_every_folder(package: str) -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    folders = {each.parent.name for each in (ROOT / package).glob("*/__init__.py")} - {"testing"}

    assert {folder for folder in folders if f"`{folder}/`" not in text} == set()
