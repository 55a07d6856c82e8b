"""Flux's conclusions from the health expressions of the GitOps example, over a job's life."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from tests.unit.operator.decisions.user import User

from streamjob_operator.resources.conditions import ConditionType
from streamjob_operator.resources.status import LifecycleState

_FILE = Path(__file__).parents[3] / "examples" / "kubernetes" / "gitops" / "flux" / "flights.yaml"
_EXISTS = re.compile(r"([\w.]+)\.exists\((\w), ([^()]*)\)")


class Missing(Exception):
    """CEL has no value for a field that is not there; Flux waits."""


class Fields(SimpleNamespace):
    """An object whose fields are read as CEL does."""

    def __getattr__(self, name: str) -> Any:
        raise Missing(name)


def evaluated(expression: str, resource: dict[str, Any]) -> bool:
    """Return what an expression says; of CEL it knows what the example uses: has, exists, &&, ==."""
    text = re.sub(r"has\(([\w.]+)\.(\w+)\)", r"present(\1, '\2')", " ".join(expression.split()))
    text = _EXISTS.sub(r"any((\3) for \2 in \1)", text).replace("&&", " and ")
    names = {name: fields(part) for name, part in resource.items()}
    try:
        return bool(eval(text, {"__builtins__": {"any": any}, "present": present}, names | {"c": None}))
    except Missing:
        return False


def present(thing: Fields, name: str) -> bool:
    return name in vars(thing)


def fields(value: Any) -> Any:
    if isinstance(value, dict):
        return Fields(**{name: fields(each) for name, each in value.items()})
    return [fields(each) for each in value] if isinstance(value, list) else value


def verdict(user: User) -> str:
    """Return what Flux makes of the job: it looks for a failure first."""
    stored = user.world.stored
    resource = {"metadata": {"generation": stored.generation}, "status": stored.status}
    (health,) = yaml.safe_load(_FILE.read_text())["spec"]["healthCheckExprs"]
    if evaluated(health["failed"], resource):
        return "failed"
    return "current" if evaluated(health["current"], resource) else "in progress"


def suspended(user: User) -> None:
    user.edit(suspend=True)
    user.wait_for(LifecycleState.SUSPENDED)
    user.look(3)


def failed(user: User) -> None:
    user.edit(job={"behaviour": "invalid"}, upgrade={"preflight": False, "rollback": {"enabled": False}})
    user.wait_for(LifecycleState.FAILED)


def rolled_back(user: User) -> None:
    user.edit(job={"behaviour": "invalid"}, upgrade={"preflight": False})
    user.wait_for(LifecycleState.ROLLED_BACK)


def refused(user: User) -> None:
    user.edit(job={"behaviour": "invalid"})
    user.wait(lambda: user.condition(ConditionType.PREFLIGHT_PASSED).status == "False")


def failed_and_corrected(user: User) -> None:
    failed(user)
    user.edit(job={"behaviour": "good"})


def changed(user: User) -> None:
    user.edit(image="two")


def upgrading(user: User) -> None:
    user.edit(image="two")
    user.wait_for(LifecycleState.UPGRADING)


def upgraded(user: User) -> None:
    upgrading(user)
    user.wait_for(LifecycleState.STABLE)


@pytest.mark.parametrize(
    ("course", "expected"),
    [
        (lambda _user: None, "current"),
        (suspended, "in progress"),
        (failed, "failed"),
        (rolled_back, "failed"),
        (refused, "failed"),
        (failed_and_corrected, "in progress"),
        (changed, "in progress"),
        (upgrading, "in progress"),
        (upgraded, "current"),
    ],
    ids=[
        "stable",
        "suspended",
        "failed",
        "rolled back",
        "refused by its preflight",
        "failed, then corrected",
        "changed",
        "upgrading",
        "upgraded",
    ],
)
def test_flux_waits_for_what_the_spec_asks_for(course: Callable[[User], None], expected: str) -> None:
    user = User.with_stable_job()

    course(user)

    assert verdict(user) == expected


def test_flux_waits_for_a_job_that_nobody_has_looked_at() -> None:
    assert verdict(User()) == "in progress"
