"""Rules of the repository that no tool of its own checks."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]

# A path that exists on the machine of one developer only: a home, or a working copy below the root directory.
_MACHINE_PATH = re.compile(r"(?<![\w.$}/-])/(?:root|home/\w+|Users/\w+|work|farm|opt/(?:venv|wheels))/\w")


def tracked_files() -> Iterator[Path]:
    """Yield the files that git tracks and that exist."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, listing.decode().split("\0")):
        if (ROOT / name).is_file():
            yield ROOT / name


def tracked_text() -> Iterator[tuple[Path, str]]:
    """Yield the tracked text files with their content."""
    for file in tracked_files():
        try:
            yield file, file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


@pytest.mark.parametrize("folder", ["operator", "runtime"])
def test_a_folder_of_packages_is_no_package_itself(folder: str) -> None:
    """A package `operator` would shadow the standard library's module."""
    assert not (ROOT / folder / "__init__.py").exists()


def test_the_standard_operator_module_is_the_one_that_is_imported() -> None:
    import operator

    assert operator.__name__ == "operator"
    assert ROOT not in Path(operator.__file__ or "").resolve().parents


@pytest.mark.parametrize(
    "name", ["requirements.lock", "requirements.browser.lock", "requirements.notebook.lock", "requirements.uv.lock"]
)
def test_a_lock_names_versions_and_hashes_but_no_host(name: str) -> None:
    text = (ROOT / name).read_text()
    requirements = re.split(r"\n(?=\S)", text.replace("\\\n", " ").strip())

    assert "://" not in text
    assert not re.search(r"^\s*--(index-url|extra-index-url|find-links)", text, re.MULTILINE)
    assert [line for line in requirements if "==" not in line or "--hash=sha256:" not in line] == []


def test_no_file_names_a_path_of_one_machine() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
        for file, text in tracked_text()
        for number, line in enumerate(text.splitlines(), start=1)
        if _MACHINE_PATH.search(line)
    ]

    assert found == []


def test_a_hosting_service_checks_what_everyone_can_check_with_make() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]

    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]

    assert commands
    assert [each for each in commands if not each.startswith("make ")] == []


def test_what_continuous_integration_runs_can_be_executed() -> None:
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
