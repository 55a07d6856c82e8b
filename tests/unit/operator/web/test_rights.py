"""The rights that a request for a job needs, and those that a token gives."""

from __future__ import annotations

import pytest
from tests.unit.operator.web.bench import token

from streamjob.page.audiences import READ_AUDIENCE, WRITE_AUDIENCE
from streamjob_operator.web.rights import (
    Need,
    Verb,
    Way,
    expiry,
    from_another_site,
    may_write,
    need_of,
)

READ = Need(Way.DRIVER, Verb.GET)
ASK = Need(Way.DRIVER, Verb.UPDATE)


@pytest.mark.parametrize(
    ("method", "path", "need"),
    [
        ("GET", "job", READ),
        ("GET", "checkpoints", READ),
        ("GET", "checkpoints/17", READ),
        ("GET", "triggers/0f3b6a52-7f0e", READ),
        ("GET", "stream", Need(Way.STREAM, Verb.GET)),
        ("GET", "session", Need(Way.SESSION, Verb.GET)),
        ("GET", "resource", Need(Way.RESOURCE, Verb.GET)),
        ("POST", "checkpoints", ASK),
        ("GET", "profiles", READ),
        ("GET", "profiles/an-id", READ),
        ("POST", "profiles", ASK),
        ("POST", "savepoints", ASK),
        ("POST", "scale", Need(Way.SCALE, Verb.UPDATE)),
        ("POST", "suspend", Need(Way.SUSPEND, Verb.UPDATE)),
    ],
)
def test_a_request_needs_the_right_to_read_or_to_change_the_streamjob(method: str, path: str, need: Need) -> None:
    assert need_of(method, path) == need


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "stop"),  # the controller would start the job again
        ("POST", "sessions"),
        ("POST", "sessions/codes"),  # a session of the driver would outlive the viewer's rights
        ("PATCH", "checkpointing"),
        ("POST", "job"),
        ("DELETE", "checkpoints/17"),
        ("GET", "checkpoints/17/../../sessions"),
        ("GET", "triggers/a%2Fb"),
        ("GET", "job\n"),
        ("GET", "metrics"),
        ("GET", ""),
    ],
)
def test_other_requests_reach_no_driver(method: str, path: str) -> None:
    assert need_of(method, path) is None


@pytest.mark.parametrize(
    ("audiences", "writes"),
    [
        ((READ_AUDIENCE,), False),
        ((WRITE_AUDIENCE,), True),
        ((READ_AUDIENCE, WRITE_AUDIENCE), True),
        ((), True),  # a token for the API server has all rights of its user there, too
    ],
)
def test_a_token_for_reading_changes_nothing(audiences: tuple[str, ...], writes: bool) -> None:
    assert may_write(audiences) is writes


def test_a_token_says_when_it_expires() -> None:
    assert expiry(token(1_795_393_600)) == 1_795_393_600


@pytest.mark.parametrize("odd", ["", "opaque", "a.b", "a.%%%.c", "a.W10.c", token(), f"a.{'W' * 4000}.c"])
def test_a_token_that_does_not_say_when_it_expires_has_no_end(odd: str) -> None:
    assert expiry(odd) is None


@pytest.mark.parametrize(
    ("site", "foreign"),
    [("same-origin", False), ("none", False), ("cross-site", True), ("same-site", True)],
)
def test_a_page_of_another_site_is_recognized(site: str, foreign: bool) -> None:
    assert from_another_site({"Sec-Fetch-Site": site}) is foreign
    assert from_another_site({}) is False
