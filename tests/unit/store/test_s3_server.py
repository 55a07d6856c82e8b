"""Which S3 server the tests use: the real one, and never another in silence."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.servers import s3
from tests.servers.process import ServerMissing


@pytest.fixture(autouse=True)
def _a_machine_without_versitygw(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("VERSITYGW", raising=False)
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(s3, "REPOSITORY", tmp_path / "repository")


def test_moto_stands_in_and_the_run_says_so() -> None:
    assert s3.find_versitygw() is None
    assert "moto, because versitygw was not found" in s3.which_server()


def test_ci_does_without_no_real_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")

    with pytest.raises(ServerMissing, match="VERSITYGW"):
        s3.which_server()


def test_the_real_server_is_taken_from_beside_the_repository_the_path_or_the_variable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = tmp_path / "shared" / "servers" / "run"
    run.parent.mkdir(parents=True)
    run.touch()
    assert s3.find_versitygw() == [str(run), "versitygw"]

    on_path = tmp_path / "versitygw"
    on_path.touch(0o755)
    assert s3.find_versitygw() == [str(on_path)]

    monkeypatch.setenv("VERSITYGW", "/named/versitygw")
    assert s3.find_versitygw() == ["/named/versitygw"]
