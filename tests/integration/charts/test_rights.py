"""The controller's rights in a cluster with the chart."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.charts.conftest import Render
from tests.integration.charts.rendered import ROOT

import streamjob_operator
from streamjob_operator.cluster import kinds
from streamjob_operator.cluster.kinds import (
    CONFIG_MAP,
    LEASE,
    NETWORK_POLICY,
    POD,
    POD_DISRUPTION_BUDGET,
    SECRET,
    SERVICE,
    STATEFUL_SET,
    STREAM_JOB,
    STREAM_SNAPSHOT,
    SUBJECT_ACCESS_REVIEW,
    TOKEN_REVIEW,
    Kind,
)
from streamjob_operator.controller import WATCHED

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow]  # Helm may have to be built first

SOURCES = Path(streamjob_operator.__file__).parent
VERBS = {"get": "get", "list": "list", "create": "create", "replace": "update", "patch": "patch", "delete": "delete"}
DRIVER = [(kind.group, kind.plural, "create") for kind in (POD, CONFIG_MAP, SECRET, NETWORK_POLICY)]
"""The rights to create a driver's objects, whose kinds the code does not name."""

EXECUTORS = [
    *((kind.group, kind.plural, "create") for kind in (STATEFUL_SET, SERVICE, POD_DISRUPTION_BUDGET)),
    *((kind.group, kind.plural, verb) for kind in (STATEFUL_SET, POD_DISRUPTION_BUDGET) for verb in ("get", "update")),
]
"""The same for those of executors, which follow the spec."""

RESIZE = [(POD.group, f"{POD.plural}/resize", "patch")]
"""The right to change the processors of a pod, whose subresource is in the cluster's own method."""

FINALIZER = [(kind.group, kind.plural, "patch") for kind in (STREAM_JOB, STREAM_SNAPSHOT)]
"""The same of what has the finalizer."""

REVIEWS = {(kind.group, kind.plural, "create") for kind in (TOKEN_REVIEW, SUBJECT_ACCESS_REVIEW)}
"""The rights that only the page of all jobs needs."""

KINDS_BY_NAME = {name: each for name, each in vars(kinds).items() if isinstance(each, Kind)}

Right = tuple[str, str, str]

MODES = pytest.mark.parametrize(
    "values",
    [pytest.param({}, id="cluster-wide"), pytest.param({"watchNamespaces": ["orders", "fraud"]}, id="namespaced")],
)


def requests() -> Iterator[Right]:
    """Yield what the code asks of the API: calls on a cluster whose first argument names a kind."""
    for file in SOURCES.rglob("*.py"):
        for call in ast.walk(ast.parse(file.read_text())):
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.args):
                continue
            kind = KINDS_BY_NAME.get(ast.unparse(call.args[0]))
            if call.func.attr in VERBS and kind is not None:
                parts = [each.value for each in call.keywords if each.arg == "subresource"]
                suffix = f"/{ast.literal_eval(parts[0])}" if parts else ""
                yield kind.group, kind.plural + suffix, VERBS[call.func.attr]


def watches() -> Iterator[Right]:
    """Yield what Kopf asks of the API for the kinds that the controller watches."""
    for kind in WATCHED:
        yield from ((kind.group, kind.plural, verb) for verb in ("list", "watch"))


@MODES
def test_it_may_do_what_the_controller_asks_for_and_nothing_else(render: Render, values: dict[str, Any]) -> None:
    allowed = {right[1:] for right in render(values).rights()}
    owner = {("streamjob.io", f"{kind.plural}/finalizers", "update") for kind in (STREAM_JOB, STREAM_SNAPSHOT)}

    expected = {*requests(), *watches(), *DRIVER, *EXECUTORS, *RESIZE, *FINALIZER}
    assert expected > REVIEWS
    assert allowed - owner == expected - REVIEWS
    assert owner < allowed


@MODES
def test_the_page_adds_the_right_to_ask_about_viewers_and_nothing_else(render: Render, values: dict[str, Any]) -> None:
    without, page = set(render(values).rights()), set(render(values | {"page": {"enabled": True}}).rights())

    assert without < page
    assert page - without == {("*", *right) for right in REVIEWS}


@MODES
def test_the_table_of_rights_in_the_documents_is_the_charts(render: Render, values: dict[str, Any]) -> None:
    given = {(resource, verb) for _, _, resource, verb in render(values).rights()}

    assert set(documented()) == given


def documented() -> Iterator[tuple[str, str]]:
    """Yield resources and verbs of the table in the how-to."""
    text = (ROOT / "docs" / "how-to" / "install-the-controller.md").read_text()
    table = text.partition("| Resource | Verbs |")[2].partition("\n\n")[0]
    for row in table.splitlines()[2:]:
        _, resources, verbs, *_ = row.split("|")
        for resource in re.findall(r"`([a-z/]+)`", resources):
            yield from ((resource, verb.strip()) for verb in verbs.partition(";")[0].split(",") if "own" not in verb)


@MODES
def test_no_right_is_given_by_a_wildcard(render: Render, values: dict[str, Any]) -> None:
    assert [right for right in render(values).rights() if "*" in right[1:]] == []


@MODES
def test_nothing_is_deleted_by_the_collection_and_no_role_is_given(render: Render, values: dict[str, Any]) -> None:
    verbs = {verb for _, _, _, verb in render(values).rights()}

    assert verbs <= {"get", "list", "watch", "create", "update", "patch", "delete"}


def test_a_namespaced_controller_has_no_right_outside_its_namespaces(render: Render) -> None:
    rendered = render({"watchNamespaces": ["orders", "fraud"]}, namespace="system")
    outside = {(group, resource) for where, group, resource, _ in rendered.rights() if where == "system"}

    assert rendered.all("ClusterRole") == rendered.all("ClusterRoleBinding") == []
    assert {where for where, *_ in rendered.rights()} == {"orders", "fraud", "system"}
    assert outside == {(LEASE.group, LEASE.plural)}
    assert rendered.environment["STREAMJOB_NAMESPACES"] == "orders,fraud"


def test_it_may_do_the_same_in_one_namespace_as_in_all(render: Render) -> None:
    everywhere = {right[1:] for right in render().rights() if right[0] == "*"}
    in_one = {right[1:] for right in render({"watchNamespaces": ["orders"]}).rights() if right[0] == "orders"}

    assert everywhere == in_one
    assert everywhere


@MODES
def test_every_role_is_bound_to_the_service_account_of_the_pods(render: Render, values: dict[str, Any]) -> None:
    rendered = render(values)
    roles = [
        (each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"])
        for each in (*rendered.all("ClusterRole"), *rendered.all("Role"))
    ]
    bindings = (*rendered.all("ClusterRoleBinding"), *rendered.all("RoleBinding"))
    bound = [(each["roleRef"]["kind"], each["metadata"].get("namespace"), each["roleRef"]["name"]) for each in bindings]
    subject = {"kind": "ServiceAccount", "name": rendered.pod["serviceAccountName"], "namespace": "system"}

    assert sorted(map(str, bound)) == sorted(map(str, roles))
    assert [each["subjects"] for each in bindings] == [[subject]] * len(bindings)
    assert rendered.one("ServiceAccount")["metadata"]["name"] == rendered.pod["serviceAccountName"]


def test_only_its_own_lease_can_be_taken(render: Render) -> None:
    rendered = render(release="blue")
    rules = [
        rule
        for role in rendered.all("Role")
        for rule in role["rules"]
        if rule["resources"] == [LEASE.plural] and rule["verbs"] != ["create"]
    ]

    assert [rule["resourceNames"] for rule in rules] == [[rendered.environment["STREAMJOB_LEASE_NAME"]]]


def test_two_releases_in_one_namespace_share_no_name(render: Render) -> None:
    names = [
        {
            (each["kind"], each["metadata"]["name"])
            for each in render({"crds": {"install": False}}, release=name).manifests
        }
        for name in ("blue", "green")
    ]

    assert names[0] & names[1] == set()


def test_a_service_account_of_ones_own_is_used_and_not_created(render: Render) -> None:
    rendered = render({"serviceAccount": {"create": False, "name": "mine"}})

    assert rendered.all("ServiceAccount") == []
    assert rendered.pod["serviceAccountName"] == "mine"
    assert rendered.one("ClusterRoleBinding")["subjects"][0]["name"] == "mine"


def test_rights_can_be_left_to_others(render: Render) -> None:
    assert list(render({"rbac": {"create": False}}).rights()) == []
