"""The job's page over real HTTP: its files, its sessions, and the names under which it answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.integration.api.served import ServedJob

from streamjob.page.files import PageFile, names_of, page_files
from streamjob_runtime.spark.page import SparkPage

WRITES = [
    ("POST", "/v1/checkpoints"),
    ("POST", "/v1/savepoints"),
    ("POST", "/v1/profiles"),
    ("POST", "/v1/stop"),
    ("PATCH", "/v1/checkpointing"),
    ("POST", "/v1/sessions/codes"),
]


@pytest.fixture
def browser(http: httpx.Client) -> Iterator[httpx.Client]:
    """A client without the job's token."""
    with httpx.Client(base_url=http.base_url, timeout=60.0, trust_env=False) as client:
        yield client


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of two files."""
    files = {
        "index.html": PageFile(b"<!doctype html>", "text/html; charset=utf-8"),
        "app.js": PageFile(b"start()", "text/javascript; charset=utf-8"),
    }
    monkeypatch.setattr("streamjob_runtime.control.api.app.page_files", lambda: files)


def begin(http: httpx.Client, browser: httpx.Client, *, write: bool) -> dict[str, str]:
    """Begin a session, and return the headers that carry its token."""
    code = http.post("/v1/sessions/codes", json={"write": write}).json()["code"]
    token = browser.post("/v1/sessions", json={"code": code}).json()["token"]
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.usefixtures("built")
@pytest.mark.parametrize(
    ("path", "content", "kind"),
    [
        ("/ui/", "<!doctype html>", "text/html; charset=utf-8"),
        ("/ui/index.html", "<!doctype html>", "text/html; charset=utf-8"),
        ("/ui/app.js", "start()", "text/javascript; charset=utf-8"),
    ],
)
def test_the_page_needs_no_token_and_ties_the_browsers_hands(
    browser: httpx.Client, path: str, content: str, kind: str
) -> None:
    answer = browser.get(path)

    assert (answer.status_code, answer.text, answer.headers["content-type"]) == (200, content, kind)
    policy = dict(each.strip().split(" ", 1) for each in answer.headers["content-security-policy"].split(";"))
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "connect-src": "'self'",
        "img-src": "'self' data:",
        "frame-ancestors": "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    assert answer.headers["cache-control"] == "no-store"
    assert browser.head(path).status_code == 200


@pytest.mark.usefixtures("built")
@pytest.mark.parametrize("path", ["/ui/none.js", "/ui/..%2Fviews.py", "/ui/%2e%2e/%2e%2e/views.py", "/ui/sub/app.js"])
def test_nothing_but_the_files_of_the_page_is_served(browser: httpx.Client, path: str) -> None:
    assert browser.get(path).status_code == 404


def test_the_page_without_a_slash_leads_to_the_page_below_any_prefix(browser: httpx.Client) -> None:
    answer = browser.get("/ui")

    assert (answer.status_code, answer.headers["location"]) == (308, "ui/")


def test_only_files_that_a_page_consists_of_are_read(tmp_path: Path) -> None:
    for name in ("index.html", "app.js", ".htaccess", "notes.md"):
        (tmp_path / name).write_text(name)
    (tmp_path / "folder.js").mkdir()

    assert page_files(tmp_path).keys() == {"index.html", "app.js"}
    assert page_files(tmp_path / "none") == {}


def test_a_code_begins_a_session_that_reads(http: httpx.Client, browser: httpx.Client, job: ServedJob) -> None:
    code = http.post("/v1/sessions/codes").json()
    assert code.keys() == {"code", "expiresAt"}

    session = browser.post("/v1/sessions", json={"code": code["code"]})

    assert session.status_code == 201
    assert session.json().keys() == {"token", "expiresAt", "write"}
    headers = {"Authorization": f"Bearer {session.json()['token']}"}
    assert browser.get("/v1/job", headers=headers).json()["name"] == "flights"
    rights = {"write": False, "expiresAt": session.json()["expiresAt"]}
    assert browser.get("/v1/session", headers=headers).json() == rights
    assert http.get("/v1/session").json() == {"write": True, "expiresAt": None}


@pytest.mark.parametrize(("method", "path"), WRITES)
def test_a_session_that_reads_changes_nothing(
    http: httpx.Client, browser: httpx.Client, job: ServedJob, method: str, path: str
) -> None:
    headers = begin(http, browser, write=False)

    answer = browser.request(method, path, headers=headers, json={})

    assert (answer.status_code, answer.json()["title"]) == (403, "Forbidden")
    assert "--write" in answer.json()["fix"]
    assert job.asked == []


def test_a_session_that_writes_takes_a_checkpoint_and_begins_no_other_session(
    http: httpx.Client, browser: httpx.Client, job: ServedJob
) -> None:
    headers = begin(http, browser, write=True)

    answer = browser.post("/v1/checkpoints", headers=headers, json={"triggerId": "mine"})

    assert answer.status_code == 202
    assert job.asked == [("checkpoint", "mine")]
    assert browser.post("/v1/sessions/codes", headers=headers).status_code == 403


def test_a_token_may_come_in_another_header_behind_a_proxy_that_keeps_the_first(
    http: httpx.Client, browser: httpx.Client
) -> None:
    token = begin(http, browser, write=False)["Authorization"].removeprefix("Bearer ")

    assert browser.get("/v1/job", headers={"X-Streamjob-Token": token}).status_code == 200
    mixed = {"Authorization": "Bearer of-the-cluster", "X-Streamjob-Token": token}
    assert browser.get("/v1/job", headers=mixed).status_code == 200
    assert browser.get("/v1/job", headers={"X-Streamjob-Token": "guess"}).status_code == 401


@pytest.mark.parametrize("body", [{"code": "guess"}, {"code": "x" * 200}])
def test_a_code_that_was_not_issued_begins_no_session(browser: httpx.Client, body: dict[str, str]) -> None:
    answer = browser.post("/v1/sessions", json=body)

    assert (answer.status_code, answer.json()["title"]) == (401, "Invalid code")


def test_a_code_that_is_no_code_is_refused(browser: httpx.Client) -> None:
    assert browser.post("/v1/sessions", json={"code": ""}).status_code == 422
    assert browser.post("/v1/sessions", json={"code": "x", "write": True}).status_code == 422


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", ""])
def test_a_stranger_who_lets_his_name_lead_to_this_machine_gets_nothing(
    http: httpx.Client, browser: httpx.Client, host: str
) -> None:
    headers = {"Host": host}

    assert browser.get("/ui/", headers=headers).status_code == 421
    assert browser.post("/v1/sessions", headers=headers, json={"code": "x"}).status_code == 421
    assert http.get("/v1/job", headers=headers).status_code == 421


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:1", "LOCALHOST", "[::1]:8080", "[::1]"])
def test_loopback_has_its_names_at_any_port(http: httpx.Client, host: str) -> None:
    assert http.get("/v1/job", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    ("address", "name", "answered"),
    [
        ("127.0.0.1", "localhost", True),
        ("127.0.0.1", "job.example", False),
        ("127.0.0.2", "127.0.0.2", True),
        ("::1", "[::1]", True),
        ("::1", "job.example", False),
        ("*", "job.example", True),
        ("10.0.0.7", "job.example", True),
    ],
)
def test_only_a_server_on_loopback_knows_its_names(address: str, name: str, answered: bool) -> None:
    names = names_of(address)

    assert (names is None or name in names) == answered


def test_sparks_own_page_opens_for_a_session_that_reads_and_for_nobody_else(
    http: httpx.Client, browser: httpx.Client, job: ServedJob
) -> None:
    headers = begin(http, browser, write=False)
    off = browser.post("/v1/spark-page", headers=headers, json={})
    assert (off.status_code, "spark.ui.enabled" in off.json()["fix"]) == (409, True)
    assert browser.post("/v1/spark-page").status_code == 401
    job.spark = SparkPage("http://127.0.0.1:9", "secret")

    opened = browser.post("/v1/spark-page", headers=headers, json={"base": "/p"})

    assert opened.status_code == 201
    path = opened.json()["path"].removeprefix("/p")
    # Nobody listens there, but the ticket was good.
    assert browser.get(path).status_code == 502
    assert browser.get("/ui/spark/guess/jobs/").status_code == 403
    assert browser.get(path, headers={"Host": "evil.example"}).status_code == 421
    assert browser.post(path).status_code == 401
    assert browser.get("/v1/job", headers={"Authorization": f"Bearer {path.split('/')[3]}"}).status_code == 401
    assert browser.post("/v1/spark-page", headers=headers, json={"base": "//x"}).status_code == 422
