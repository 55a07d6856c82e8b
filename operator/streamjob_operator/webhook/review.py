"""Reviews of StreamJobs: which changes are checked, and the answer that the API server gets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from streamjob.errors import StreamJobError
from streamjob_operator.cluster.kinds import STREAM_JOB, Object

VERSION = "admission.k8s.io/v1"
MOST_PROBLEMS = 30
_LONGEST_PROBLEM = 500
_CHANGES = ("CREATE", "UPDATE")


class NotAReview(StreamJobError):
    """A request is no AdmissionReview."""


@dataclass(frozen=True, slots=True)
class Review:
    """The API server's question about one change.

    Args:
        uid: of the question; its answer has the same.
        subject: name, namespace and spec of the StreamJob to check; None if the change is allowed unchecked.
    """

    uid: str
    subject: Object | None


def read_review(body: bytes) -> Review:
    """Return the question in the body of a request.

    A change is checked only if it creates a StreamJob or changes a spec: finalizers, labels and the status of an
    invalid StreamJob can change, and it can be deleted.

    Raises:
        NotAReview: the body is no AdmissionReview; the message says why.
    """
    try:
        review = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise NotAReview(f"the body cannot be read as JSON: {error}") from None
    if not isinstance(review, dict) or (review.get("apiVersion"), review.get("kind")) != (VERSION, "AdmissionReview"):
        raise NotAReview(f"the body is not an AdmissionReview of {VERSION}")
    request = review.get("request")
    if not isinstance(request, dict) or not isinstance(request.get("uid"), str):
        raise NotAReview("the AdmissionReview has no request with a uid")
    return Review(request["uid"], _subject(request))


def allow(review: Review, warning: str | None = None) -> Object:
    """Return the answer that allows a change; `warning` is shown to its author."""
    return _answer(review, allowed=True, **({} if warning is None else {"warnings": [warning]}))


def deny(review: Review, problems: Sequence[str]) -> Object:
    """Return the answer that refuses a change, with its problems as the message."""
    told = [each if len(each) <= _LONGEST_PROBLEM else f"{each[:_LONGEST_PROBLEM]}…" for each in problems]
    if len(told) > MOST_PROBLEMS:
        told[MOST_PROBLEMS:] = [f"and {len(told) - MOST_PROBLEMS} more problems"]
    message = told[0] if len(told) == 1 else "".join(f"\n- {each}" for each in told)
    return _answer(review, allowed=False, status={"code": 422, "reason": "Invalid", "message": message})


def _subject(request: Object) -> Object | None:
    thing, before = _object(request.get("object")), _object(request.get("oldObject"))
    kind = _object(request.get("kind"))
    if (kind.get("group"), kind.get("kind")) != (STREAM_JOB.group, STREAM_JOB.kind):
        return None
    if request.get("operation") not in _CHANGES or request.get("subResource"):
        return None
    if request["operation"] == "UPDATE" and thing.get("spec") == before.get("spec"):
        return None
    metadata = _object(thing.get("metadata"))
    if metadata.get("deletionTimestamp"):
        return None
    # A job without a name of its own is checked under one that is as long.
    name = metadata.get("name") or request.get("name") or f"{metadata.get('generateName', '')}xxxxx"
    namespace = metadata.get("namespace") or request.get("namespace") or "default"
    return {"metadata": {"name": name, "namespace": namespace}, "spec": thing.get("spec")}


def _object(value: Any) -> Object:
    return value if isinstance(value, dict) else {}


def _answer(review: Review, **response: Any) -> Object:
    return {"apiVersion": VERSION, "kind": "AdmissionReview", "response": {"uid": review.uid, **response}}
