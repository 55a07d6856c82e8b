"""Which changes of a StreamJob are checked, and what the API server is answered."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from tests.unit.operator.webhook.reviews import INVALID, VALID, body, review

from streamjob_operator.evaluation.validation import read_problems
from streamjob_operator.webhook.review import MOST_PROBLEMS, NotAReview, Review, allow, deny, read_review

REVIEW = Review("u-1", None)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(body(VALID), id="a StreamJob that is created"),
        pytest.param(body(VALID, before=INVALID), id="a spec that is changed"),
    ],
)
def test_a_new_spec_is_checked(given: bytes) -> None:
    found = read_review(given)

    assert (found.uid, found.subject) == ("u-1", {"metadata": {"name": "a", "namespace": "jobs"}, "spec": VALID})


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(body(INVALID, before=INVALID), id="an update that leaves the spec as it is"),
        pytest.param(body(None, before=INVALID, operation="DELETE"), id="a deletion"),
        pytest.param(body(INVALID, before=VALID, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), id="a goner"),
        pytest.param(body(INVALID, before=VALID, subResource="status"), id="a status"),
        pytest.param(body(INVALID, operation="CONNECT"), id="another operation"),
        pytest.param(body(INVALID, kind={"group": "streamjob.io", "kind": "StreamSnapshot"}), id="another kind"),
    ],
)
def test_other_changes_are_allowed_unchecked(given: bytes) -> None:
    assert read_review(given) == REVIEW


def test_a_job_whose_name_is_to_be_generated_is_checked_under_one() -> None:
    given = review(VALID, name="")
    given["request"]["object"]["metadata"] = {"generateName": "a-"}
    found = read_review(json.dumps(given).encode()).subject

    assert found is not None
    assert found["metadata"] == {"name": "a-xxxxx", "namespace": "jobs"}
    assert read_problems(found)[1] == ()


@pytest.mark.parametrize("place", ["sparkConf", "job.sparkConf"])
def test_a_heap_that_the_memory_of_the_driver_overrides_is_a_problem(place: str) -> None:
    spec = deepcopy(VALID)
    part = spec["job"] if place.startswith("job") else spec
    part["sparkConf"] = {"spark.driver.memory": "4g"}

    (problem,) = read_problems({"metadata": {"name": "a", "namespace": "b"}, "spec": spec})[1]

    assert problem.startswith(f"spec.{place}: spark.driver.memory is set by driver.memory, of which Java gets 75%;")


def test_functions_of_sql_are_in_the_image_and_only_their_names_are_checked() -> None:
    spec = deepcopy(VALID)
    spec["job"]["functions"] = {"shop_of": "nowhere:shop_of", "a b": "nowhere:shop_of"}

    assert read_problems({"metadata": {"name": "a", "namespace": "b"}, "spec": spec})[1] == (
        "function 'a b': has a name that SQL cannot call\n    fix: use letters, digits and '_'",
    )


@pytest.mark.parametrize("spec", ["x", 3], ids=repr)
def test_a_spec_that_is_no_object_is_checked_as_any_other(spec: Any) -> None:
    given = review(VALID)
    given["request"]["object"]["spec"] = spec
    found = read_review(json.dumps(given).encode()).subject

    assert found is not None
    assert read_problems(found)[1] != ()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        pytest.param(b"", "cannot be read as JSON", id="nothing"),
        pytest.param(b"\xff\x00", "cannot be read as JSON", id="no text"),
        pytest.param(b"[" * 100_000, "cannot be read as JSON", id="deeply nested"),
        pytest.param(b"9" * 5000, "cannot be read as JSON", id="a long number"),
        pytest.param(b"[]", "not an AdmissionReview of admission.k8s.io/v1", id="a list"),
        pytest.param(b'{"kind": "AdmissionReview"}', "not an AdmissionReview of", id="without a version"),
        pytest.param(json.dumps(review(VALID) | {"request": None}).encode(), "no request with a uid", id="no request"),
        pytest.param(body(VALID, uid=None), "no request with a uid", id="no uid"),
    ],
)
def test_anything_else_is_no_review(given: bytes, why: str) -> None:
    with pytest.raises(NotAReview, match=why):
        read_review(given)


def test_an_answer_has_the_uid_of_its_question() -> None:
    assert allow(REVIEW) == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": "u-1", "allowed": True},
    }
    assert allow(REVIEW, "not checked")["response"]["warnings"] == ["not checked"]


def test_a_refusal_names_every_problem() -> None:
    one, two = (deny(REVIEW, problems)["response"] for problems in (["a: wrong"], ["a: wrong", "b: too"]))

    assert (one["uid"], one["allowed"]) == ("u-1", False)
    assert one["status"] == {"code": 422, "reason": "Invalid", "message": "a: wrong"}
    assert two["status"]["message"] == "\n- a: wrong\n- b: too"


def test_a_refusal_has_a_bounded_length() -> None:
    message = deny(REVIEW, ["x" * 10_000] * 1000)["response"]["status"]["message"]

    assert message.endswith(f"- and {1000 - MOST_PROBLEMS} more problems")
    assert len(message) < 20_000
