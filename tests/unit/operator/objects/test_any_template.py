"""The job runs as the controller decided, with any pod template."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.operator.objects.samples import OWNER, container, pod, variables

from streamjob.errors import InvalidInput
from streamjob_operator.objects.merging import by_key, merged

SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner), max_leaves=6
)
NAMES = st.sampled_from(["streamjob", "work", "control", "STREAMJOB_PORT", "HOME", "other"])
NAMED = st.lists(st.fixed_dictionaries({"name": NAMES}, optional={"value": JSON, "image": JSON, "env": JSON}) | JSON)
PARTS = {
    "containers": NAMED,
    "initContainers": NAMED,
    "volumes": NAMED,
    "restartPolicy": JSON,
    "securityContext": JSON,
    "tolerations": JSON,
    "terminationGracePeriodSeconds": JSON,
}
TEMPLATES = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.fixed_dictionaries({}, optional={"labels": JSON, "annotations": JSON, "name": JSON}) | JSON,
        "spec": st.fixed_dictionaries({}, optional=PARTS) | JSON,
    },
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(TEMPLATES)
def test_no_template_changes_what_runs_in_the_pod_and_how_it_ends(template: dict[str, Any]) -> None:
    try:
        built = pod(driver={"template": template})
    except InvalidInput:
        return
    plain = pod()
    ours, theirs = container(plain), container(built)

    assert built["metadata"]["name"] == plain["metadata"]["name"]
    assert built["metadata"]["ownerReferences"] == plain["metadata"]["ownerReferences"]
    assert plain["metadata"]["labels"].items() <= built["metadata"]["labels"].items()
    assert built["spec"]["restartPolicy"] == "Never"
    assert built["spec"]["securityContext"].items() >= plain["spec"]["securityContext"].items()
    assert [theirs[part] for part in ("image", "args")] == [ours[part] for part in ("image", "args")]
    assert variables(built).items() >= variables(plain).items()


@pytest.mark.parametrize("template", [{"spec": "x"}, {"metadata": []}, {"metadata": {"labels": 1}}])
def test_what_is_no_template_is_refused_by_its_place(template: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=r"driver\.template\."):
        pod(driver={"template": template})


def test_a_variable_is_not_put_together_from_two_places() -> None:
    env = [{"name": "AWS_ACCESS_KEY_ID", "value": "mine"}]
    template = {"spec": {"containers": [{"name": "streamjob", "env": env}]}}

    built = pod(driver={"template": template}, storage={"credentialsSecretRef": {"name": "s3"}})

    (found,) = [each for each in container(built)["env"] if each["name"] == "AWS_ACCESS_KEY_ID"]
    assert "value" not in found


def test_elements_without_a_name_are_left_to_the_api_server() -> None:
    assert by_key([{"image": "x"}, "odd"], [{"name": "a"}], "name") == [{"image": "x"}, "odd", {"name": "a"}]


def test_what_is_laid_over_itself_stays_the_same() -> None:
    built = pod(driver={"labels": {"team": "shop"}})

    assert merged(built, built)["spec"]["containers"][0]["env"] == container(built)["env"]
    assert merged({}, built) == built
    assert OWNER.name in built["metadata"]["name"]
