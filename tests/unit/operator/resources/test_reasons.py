"""Every reason that the controller gives is explained, and every one that is explained is given."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from streamjob_operator.resources import reasons, snapshot

CONTROLLER = Path(__file__).resolve().parents[4] / "operator" / "streamjob_operator"
GIVING = [
    *sorted(file for file in (CONTROLLER / "decisions").rglob("*.py") if file.name != "__init__.py"),
    CONTROLLER / "reconciling" / "failing.py",
    CONTROLLER / "web" / "actions.py",
]
EXPLAINED = {**reasons.ON_ITS_WAY, **reasons.WRONG, **reasons.ELSEWHERE}
# Other words of the same modules: conditions and their values, values of the spec and of events, the end of a reason,
# Kubernetes' own words for failed containers and for pods.
OTHERS = {"Ready", "Reconciling", "Stalled", "True", "False", "Unknown"}
OTHERS |= {"Normal", "Warning", "Delete", "Enforce", "Never", "PutOff", "Error"}
OTHERS |= {"FailedAttachVolume", "FailedCreatePodSandBox", "FailedMount"}
OTHERS |= {"CrashLoopBackOff", "CreateContainerConfigError", "CreateContainerError", "ErrImageNeverPull"}
OTHERS |= {"Infeasible", "ParallelGCThreads"}
OTHERS |= {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "Succeeded", "Unschedulable"}
OTHERS |= {"ContainerCreating", "PodInitializing"}


def words(file: Path) -> Iterator[str]:
    """Yield the texts of a module that look like a reason."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and re.fullmatch(r"([A-Z]+[a-z]+)+", node.value)
        ):
            yield node.value


def given() -> set[str]:
    """Return the reasons that the controller gives; those of a StreamSnapshot are also its states."""
    found = {word for file in GIVING for word in words(file)} - OTHERS
    return found | {state.value for state in snapshot.SnapshotState}


def test_every_reason_is_explained() -> None:
    assert given() - EXPLAINED.keys() == set()


def test_every_reason_that_is_explained_is_given() -> None:
    assert EXPLAINED.keys() - given() == set()


def test_a_reason_is_explained_once() -> None:
    assert len(EXPLAINED) == len(reasons.ON_ITS_WAY) + len(reasons.WRONG) + len(reasons.ELSEWHERE)
