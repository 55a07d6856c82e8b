"""The page while its job changes: news, a driver that goes away, sessions, requests, and a working day of patches."""

from __future__ import annotations

from typing import Any

import pytest
from tests.integration.page.answers import NOW, profile
from tests.integration.page.browser import tab
from tests.integration.page.orders import event, points
from tests.integration.page.served import TOKEN, Driver, PageServer
from tests.integration.page.states import STATES

pytestmark = pytest.mark.slow

_HOUR = 3_600
_MOST_GROWTH = 4_000_000
"""Bytes by which the heap of a page may differ between two moments of the same state."""


def driver(pages: PageServer, name: str, state: str = "healthy", **options: Any) -> Driver:
    """Put a driver behind the server."""
    found = pages.drivers[name] = Driver(STATES[state](), **options)
    return found


def test_news_appear_without_a_reload(browser: Any, pages: PageServer) -> None:
    job = driver(pages, "news")
    with tab(browser) as seen:
        seen.open(pages.url("news"))
        sentence = "Behind by 2m 00s: chain minutes is the bottleneck (busy 99 %)"
        job.send("patch", {"diagnosis": {"severity": "attention", "sentence": sentence}, "job": {"failure": None}})
        job.send("log", event(991, 0, "checkpoint", "checkpoint 807 failed: 503", "bad"), 991)

        seen.page.locator(".verdict .sentence").get_by_text(sentence).wait_for()
        seen.page.get_by_text("checkpoint 807 failed: 503").wait_for()
        assert seen.text(".headline h1").startswith("orders")
        assert seen.problems == []


def test_only_a_change_of_the_diagnosis_is_announced(browser: Any, pages: PageServer) -> None:
    job = driver(pages, "announced")
    with tab(browser) as seen:
        seen.open(pages.url("announced"))
        first = job.state["diagnosis"]["sentence"]
        for sentence, code in (("All is well: 13,000 records/s", "all-well"), ("Behind by 2m 00s", "behind")):
            verdict = {"severity": "ok", "sentence": sentence, "reasons": [{"code": code, "sentence": sentence}]}
            job.send("patch", {"diagnosis": verdict})
            seen.page.locator(".verdict .sentence").get_by_text(sentence).wait_for()
            announced = seen.page.locator("[aria-live]").text_content()
            assert announced == (first if code == "all-well" else sentence)


def test_the_last_picture_stays_while_the_driver_is_away_and_news_follow_when_it_is_back(
    browser: Any, pages: PageServer
) -> None:
    job = driver(pages, "away")
    with tab(browser) as seen:
        seen.expected = ("503", "net::ERR")
        seen.open(pages.url("away"))
        job.away = True
        job.hang_up()

        seen.page.locator(".notice").get_by_text("No connection since").wait_for()
        assert seen.text(".headline h1").startswith("orders")
        assert seen.page.locator(".chain").count() == 3
        assert seen.violations() == []

        job.state["events"].insert(0, event(995, 0, "restart", "restart 2: the driver was replaced", "bad"))
        job.away = False
        seen.page.get_by_text("restart 2: the driver was replaced").wait_for()
        seen.page.locator(".notice").wait_for(state="detached")
        assert seen.text(".link").startswith("Live")
        assert seen.problems == []


def test_the_figures_of_another_process_replace_those_of_the_last(browser: Any, pages: PageServer) -> None:
    job = driver(pages, "next")
    with tab(browser) as seen:
        seen.open(pages.url("next"))
        began = job.state["job"]["startTime"] + 60
        job.state["job"] |= {"startTime": began, "attempt": 4}
        job.state["events"] = [event(1, 1, "state", "orders is CREATED", "notable")]
        job.send("job", job.document())

        seen.page.get_by_text("orders is CREATED").wait_for()
        assert seen.page.locator(".event").count() == 1
        assert seen.problems == []


def test_a_driver_that_ends_in_order_is_no_alarm(browser: Any, pages: PageServer) -> None:
    job = driver(pages, "over", "finished")
    with tab(browser) as seen:
        seen.expected = ("503", "net::ERR")
        seen.open(pages.url("over"))
        job.away = True
        job.send("bye", {})
        job.hang_up()

        seen.page.locator(".notice.calm").get_by_text("The driver has ended.").wait_for()
        assert seen.text(".state") == "Finished"


def test_the_code_leaves_the_address_and_the_token_stays_out_of_it(browser: Any, pages: PageServer) -> None:
    job = driver(pages, "session")
    with tab(browser) as seen:
        seen.open(pages.url("session"))

        assert seen.page.url == pages.url("session", code=None)
        assert seen.page.evaluate("history.length") <= 2
        assert seen.page.context.cookies() == []
        assert [path for method, path, _ in job.requests if method == "POST"] == ["sessions"]
        seen.page.reload()
        seen.page.wait_for_selector(".headline")
        assert TOKEN not in seen.page.url


@pytest.mark.parametrize("code", ["wrong", None])
def test_without_a_session_the_page_asks_for_one(browser: Any, pages: PageServer, code: str | None) -> None:
    driver(pages, "no-session")
    with tab(browser) as seen:
        seen.expected = ("401",)
        seen.page.goto(pages.url("no-session", code))
        seen.page.wait_for_selector(".signin")
        assert ("used before" in seen.text(".signin")) == (code is not None)
        assert seen.violations() == []

        seen.page.get_by_label("Token").fill("not the token")
        seen.page.get_by_role("button", name="Open").click()
        seen.page.get_by_text("does not accept this token").wait_for()
        seen.page.get_by_label("Token").fill(TOKEN)
        seen.page.get_by_role("button", name="Open").click()
        seen.page.wait_for_selector(".headline")
        assert seen.problems == []


def test_an_expired_session_keeps_the_last_picture(browser: Any, pages: PageServer) -> None:
    job = driver(pages, "expired")
    with tab(browser) as seen:
        seen.expected = ("401",)
        seen.open(pages.url("expired"))
        job.token = None
        job.hang_up()

        seen.page.locator(".notice").get_by_text("Your session has ended.").wait_for()
        assert seen.text(".headline h1").startswith("orders")
        assert seen.page.locator(".notice input").count() == 1
        assert seen.violations() == []


def test_a_session_that_only_reads_has_no_buttons(browser: Any, pages: PageServer) -> None:
    driver(pages, "reads")
    with tab(browser) as seen:
        seen.open(pages.url("reads"))

        assert seen.page.get_by_role("button", name="Stop").count() == 0
        assert "read-only" in seen.text(".link")


def test_a_checkpoint_is_requested_and_its_outcome_told(browser: Any, pages: PageServer) -> None:
    job = driver(pages, "writes", write=True)
    with tab(browser) as seen:
        seen.open(pages.url("writes"))
        seen.page.get_by_role("button", name="Checkpoint", exact=True).click()

        seen.page.get_by_text("Checkpoint 807 done").wait_for()
        assert ("POST", "checkpoints", {}) in job.requests


def test_a_stop_asks_first(browser: Any, pages: PageServer) -> None:
    job = driver(pages, "stops", write=True)
    with tab(browser) as seen:
        seen.open(pages.url("stops"))
        seen.page.get_by_role("button", name="Stop…").click()
        assert seen.violations() == []
        seen.page.keyboard.press("Escape")
        seen.page.locator("dialog").wait_for(state="detached")
        assert all(method == "GET" or path == "sessions" for method, path, _ in job.requests)

        seen.page.get_by_role("button", name="Stop…").click()
        seen.page.get_by_label("Drain").check()
        seen.page.get_by_role("button", name="Stop the job").click()
        seen.page.get_by_text("Stop 807 done").wait_for()
        assert ("POST", "stop", {"savepoint": True, "drain": True}) in job.requests


def test_a_driver_without_the_newer_routes_is_shown_as_far_as_it_goes(browser: Any, pages: PageServer) -> None:
    lacks = frozenset({"stream", "history", "events", "diagnosis", "session", "executors"})
    job = driver(pages, "older", lacks=lacks)
    with tab(browser) as seen:
        seen.expected = ("404", "503")
        seen.open(pages.url("older"))

        seen.page.get_by_text("does not offer its history").wait_for()
        assert seen.text(".verdict .sentence") == "The job is running."

        job.away = True
        seen.page.locator(".notice").get_by_text("No connection since").wait_for()
        job.away = False
        seen.page.locator(".notice").wait_for(state="detached")
        assert seen.problems == []


def test_the_drawer_opens_and_closes_by_keyboard_and_gives_the_focus_back(browser: Any, pages: PageServer) -> None:
    driver(pages, "keys", "behind")
    with tab(browser) as seen:
        seen.open(pages.url("keys"))
        seen.page.locator(".chain").nth(1).focus()
        seen.page.keyboard.press("Enter")
        seen.page.wait_for_selector(".drawer")
        assert seen.page.evaluate("document.activeElement.id") == "drawer-title"
        seen.page.keyboard.press("Escape")
        seen.page.locator(".drawer").wait_for(state="detached")

        assert seen.page.evaluate("document.activeElement.classList.contains('chain')")


def test_eight_hours_of_news_leave_the_heap_as_it_was(browser: Any, pages: PageServer) -> None:
    job = driver(pages, "day")
    with tab(browser) as seen:
        # An hour passes in a second: a checkpoint may have left the history when its details are asked for.
        seen.expected = ("404",)
        seen.open(pages.url("day"))
        client = seen.page.context.new_cdp_session(seen.page)
        heaps = []
        for hour in range(8):
            _pass(job, hour)
            marker = f"hour {hour} is over"
            job.send("log", event(10**6 + hour, -_HOUR * (hour + 1), "state", marker, "notable"), 10**6 + hour)
            seen.page.get_by_text(marker).wait_for(timeout=60_000)
            client.send("HeapProfiler.collectGarbage")
            heaps.append(client.send("Runtime.getHeapUsage")["usedSize"])

        # The figures of the first hour and the list of events fill up first.
        assert max(heaps[2:]) - min(heaps[2:]) < _MOST_GROWTH, heaps
        assert seen.problems == []


def _pass(job: Driver, hour: int) -> None:
    """Send the patches of an hour: figures every five seconds, and a checkpoint every ten."""
    model = points(job.state["job"], lambda back: 1.0)
    history = job.state["checkpoints"]["history"]
    for step in range(_HOUR // 5):
        now = NOW + _HOUR * hour + 5 * (step + 1)
        point = model[step % len(model)] | {"at": now}
        job.send("patch", {"point": point, "job": {"uptime": now - job.state["job"]["startTime"]}})
        if step % 2:
            number = 807 + hour * 360 + step // 2
            entries = [each | {"id": number - index, "tasks": {}} for index, each in enumerate(history[:10])]
            job.send("patch", {"checkpoints": {"history": entries}})
            job.send("log", event(number, NOW - now, "checkpoint", f"checkpoint {number} completed"), number)


def test_a_profile_is_asked_for_and_drawn(browser: Any, pages: PageServer) -> None:
    profiled = driver(pages, "profiled", write=True)
    with tab(browser) as view:
        view.open(pages.url("profiled"))
        view.page.get_by_role("button", name="Profile", exact=True).click()
        view.page.get_by_text("Recording. It takes 30 s").wait_for()
        assert ("POST", "profiles", {"seconds": 30}) in profiled.requests

        profiled.profiles[0] = profile("asked", "COMPLETED", "<img src=x onerror=alert(1)>")
        happened = {"id": 900, "at": NOW, "kind": "request", "weight": "notable", "sentence": "the profile is there"}
        profiled.send("log", happened | {"details": {"profile": "asked"}}, 900)
        view.page.get_by_label("Flame graph of driver, Java", exact=True).wait_for()

        assert "Executor 1 (executor-1) is lost" in view.text("section[aria-label=Profiles]")
        before = view.page.locator(".flame g").count()
        view.page.locator(".flame g").last.click()
        view.page.get_by_role("button", name="Show all").click()
        assert view.page.locator(".flame g").count() == before
        assert view.violations() == []
        assert view.problems == []


def test_a_reader_sees_a_profile_and_cannot_ask_for_one(browser: Any, pages: PageServer) -> None:
    driver(pages, "profile-reader").profiles = [profile("theirs")]
    with tab(browser) as view:
        view.open(pages.url("profile-reader"))
        view.page.get_by_label("Flame graph of driver, Java", exact=True).wait_for()

        assert view.page.get_by_role("button", name="Profile", exact=True).count() == 0
        assert view.problems == []


def test_sparks_page_opens_in_a_tab_that_does_not_have_the_session(browser: Any, pages: PageServer) -> None:
    driver(pages, "with-spark").state["job"]["sparkPage"] = True
    with tab(browser) as view:
        view.open(pages.url("with-spark"))
        with view.page.context.expect_page() as opened:
            view.page.get_by_role("button", name="Spark’s page").click()

        spark = opened.value
        spark.wait_for_load_state()
        assert spark.url.endswith("/with-spark/ui/spark/t/")
        assert spark.evaluate("[window.opener, sessionStorage.length, document.referrer]") == [None, 0, ""]
        assert view.page.evaluate("sessionStorage.length") == 1


def test_without_sparks_page_there_is_no_way_to_it(browser: Any, pages: PageServer) -> None:
    driver(pages, "without-spark")
    with tab(browser) as view:
        view.open(pages.url("without-spark"))

        assert view.page.get_by_role("button", name="Spark’s page").count() == 0
