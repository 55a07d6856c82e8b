"""The built page is small and current."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.integration.page.files import UI

SOURCES = Path(__file__).resolve().parents[3] / "ui"
_MOST_BYTES = 120_000


def test_the_page_is_small() -> None:
    assert sum(each.stat().st_size for each in UI.iterdir()) <= _MOST_BYTES


def test_the_page_was_built_from_the_sources_beside_it() -> None:
    named = re.search(r"sources (\w{64})", (UI / "app.js").read_text())
    names = ["build.js", "package-lock.json"]
    names += sorted(each.relative_to(SOURCES).as_posix() for each in (SOURCES / "src").rglob("*") if each.is_file())
    found = hashlib.sha256()
    for name in names:
        found.update(f"{name}\n".encode() + (SOURCES / name).read_bytes())

    assert named is not None
    assert named[1] == found.hexdigest(), "run make ui"


def test_the_page_names_no_other_host() -> None:
    allowed = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml", "http://www.w3.org/1998/Math/MathML"}
    found = {each for file in UI.iterdir() for each in re.findall(r"https?://[\w./-]+", file.read_text())}

    assert found <= allowed


def test_the_lock_of_the_page_names_no_host() -> None:
    lock = (SOURCES / "package-lock.json").read_text()

    assert "resolved" not in lock
    assert "integrity" in lock


def test_the_parts_of_the_page_that_need_no_browser_work() -> None:
    """The tests in `ui/test`, which need only Node."""
    if shutil.which("node") is None:
        pytest.skip("there is no Node")
    ran = subprocess.run(["node", "--test", "test/pure.test.js"], cwd=SOURCES, capture_output=True, text=True)

    assert ran.returncode == 0, ran.stdout


@pytest.mark.slow
def test_a_build_gives_the_same_bytes(tmp_path: Path) -> None:
    """Needs Node, and the packages of the lock."""
    if shutil.which("npm") is None:
        pytest.skip("there is no Node: the hash of the sources was compared")
    copy = tmp_path / "ui"
    shutil.copytree(SOURCES, copy, ignore=shutil.ignore_patterns("node_modules"))
    fetched = subprocess.run(
        ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"],
        cwd=copy,
        capture_output=True,
        text=True,
    )
    if fetched.returncode:
        pytest.skip(f"npm cannot fetch the packages: {fetched.stderr[-300:]}")
    subprocess.run(["node", "build.js", str(tmp_path / "built")], cwd=copy, check=True)

    built = {each.name: each.read_bytes() for each in (tmp_path / "built").iterdir()}
    assert built == {each.name: each.read_bytes() for each in UI.iterdir()}, "run make ui"
