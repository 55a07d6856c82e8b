"""The events of a job."""

from __future__ import annotations

from streamjob_runtime.control.event_log import EventLog


def test_events_are_numbered_and_shown_newest_first() -> None:
    log = EventLog()
    log.add(10.0, "state", "flights is RUNNING")
    log.add(20.0, "request", "a savepoint was requested", details={"trigger": "mine"})

    newest, oldest = log.view().events

    assert (newest.id, newest.at, newest.kind, newest.details) == (2, 20.0, "request", {"trigger": "mine"})
    assert (oldest.id, oldest.weight) == (1, "notable")
    assert log.last_id == 2


def test_only_the_last_events_are_remembered() -> None:
    log = EventLog(most=3)
    for number in range(5):
        log.add(float(number), "state", "again")

    assert [event.id for event in log.view().events] == [5, 4, 3]
    assert [event.id for event in log.after(3)] == [4, 5]
    assert log.after(5) == []
