"""The health that Argo CD shows, computed by the Lua that it runs."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.servers.go_tools import LUA, ToolMissing

import streamjob_operator
from streamjob_operator.resources.conditions import ConditionType
from streamjob_operator.resources.snapshot import StreamSnapshot
from streamjob_operator.resources.status import LifecycleState
from streamjob_operator.resources.streamjob import StreamJob

pytestmark = pytest.mark.timeout(900)  # Lua may have to be built first

CUSTOMIZATIONS = Path(__file__).resolve().parents[3] / "docs" / "gitops" / "argocd" / "streamjob.io"
MODELS: dict[str, type[StreamJob | StreamSnapshot]] = {"StreamJob": StreamJob, "StreamSnapshot": StreamSnapshot}
CASES = [
    pytest.param(kind, case, id=f"{kind}-{Path(case['inputPath']).stem}")
    for kind in MODELS
    for case in yaml.safe_load((CUSTOMIZATIONS / kind / "health_test.yaml").read_text())["tests"]
]

# Argo CD opens the basic functions and those of tables only.
_SANDBOX = """\
local print = print
string, math, io, os, debug, coroutine, require = nil, nil, nil, nil, nil, nil, nil
obj = %s
local health = (function()
%s
end)()
print(health.status)
print(health.message)
"""


@pytest.fixture(scope="session")
def lua() -> Path:
    """Give the program, which is built if it has to be."""
    try:
        return LUA.find()
    except ToolMissing as missing:
        if LUA.required:
            raise
        pytest.skip(str(missing))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "case"), CASES)
def test_the_health_of(kind: str, case: dict[str, Any], lua: Path, tmp_path: Path) -> None:
    resource = yaml.safe_load((CUSTOMIZATIONS / kind / case["inputPath"]).read_text())
    script = tmp_path / "health.lua"
    script.write_text(_SANDBOX % (_literal(resource), (CUSTOMIZATIONS / kind / "health.lua").read_text()))
    done = subprocess.run([lua, script], capture_output=True, text=True, check=False, timeout=60)
    status, _, message = done.stdout.partition("\n")

    assert done.stderr == ""
    assert {"status": status, "message": message.removesuffix("\n")} == case["healthStatus"]


@pytest.mark.parametrize(("kind", "case"), CASES)
def test_what_it_is_tested_with_is_a_resource(kind: str, case: dict[str, Any]) -> None:
    resource = yaml.safe_load((CUSTOMIZATIONS / kind / case["inputPath"]).read_text())
    read = MODELS[kind].model_validate(resource)

    assert read.spec.to_dict() == resource["spec"]
    assert _holds(read.status.to_dict(), resource.get("status", {}))


@pytest.mark.parametrize("kind", sorted(MODELS))
def test_every_health_that_argo_cd_knows_for_it_is_tested(kind: str) -> None:
    cases = yaml.safe_load((CUSTOMIZATIONS / kind / "health_test.yaml").read_text())["tests"]
    paths = {CUSTOMIZATIONS / kind / each["inputPath"] for each in cases}
    suspended = {"Suspended"} if kind == "StreamJob" else set()

    assert {each["healthStatus"]["status"] for each in cases} == {"Healthy", "Progressing", "Degraded"} | suspended
    assert set((CUSTOMIZATIONS / kind / "testdata").iterdir()) == paths


def test_the_words_that_it_knows_are_those_of_the_controller() -> None:
    script = (CUSTOMIZATIONS / "StreamJob" / "health.lua").read_text()
    conditions = Path(streamjob_operator.__file__).parent / "decisions" / "status" / "conditions.py"
    states = re.findall(r'lifecycleState == "(\w+)"', script)
    kinds = re.findall(r'condition\("(\w+)"\)', script)
    reasons = re.findall(r'reason == "(\w+)"', script)

    assert states
    assert set(states) <= set(LifecycleState)
    assert kinds
    assert set(kinds) <= set(ConditionType)
    assert reasons
    assert [reason for reason in reasons if f'"{reason}"' not in conditions.read_text()] == []


def _holds(whole: Any, part: Any) -> bool:
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(_holds(whole.get(key), value) for key, value in part.items())
    if isinstance(part, list):
        return len(whole) == len(part) and all(map(_holds, whole, part))
    return bool(whole == part)


def _literal(value: Any) -> str:
    """Return a value as Lua writes it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"[{_literal(key)}] = {_literal(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "{" + ", ".join(map(_literal, value)) + "}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
