"""Every program and job of the benchmarks can at least be started."""

from __future__ import annotations

import re
import runpy
from importlib import import_module
from pathlib import Path

import pytest
from bench.processes import REPOSITORY

from streamjob.job.loading.load import load_job

BENCH = REPOSITORY / "bench"
PROGRAMS = sorted(set(re.findall(r"-m (bench[\w.]*)", (REPOSITORY / "Makefile").read_text())))
MODULES = sorted(".".join(each.relative_to(REPOSITORY).with_suffix("").parts) for each in BENCH.rglob("*.py"))


@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_says_how_to_have_a_short_look(
    program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", [program, "--help"])

    with pytest.raises(SystemExit) as ended:
        runpy.run_module(program, run_name="__main__")

    assert ended.value.code == 0
    assert "--quick" in capsys.readouterr().out


@pytest.mark.parametrize("module", MODULES)
def test_what_a_module_imports_exists(module: str) -> None:
    import_module(module)


@pytest.mark.parametrize("file", sorted(BENCH.glob("jobs/*.yaml")), ids=lambda file: file.name)
def test_a_job_is_valid(file: Path) -> None:
    assert load_job(file, []).spec.name
