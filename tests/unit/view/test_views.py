"""How a job is shown: the panel of `streamjob run`, the output of `streamjob status`, and the line of progress."""

from __future__ import annotations

import io
import logging
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.unit.golden import compare
from tests.unit.view.samples import (
    NOW,
    START,
    a_job,
    checkpoints,
    executors,
    read_through_a_channel,
    several_chains,
    tables_and_lookups,
    with_inputs,
    with_partitions,
)

from streamjob.client.diagnosing import Circumstances, diagnose
from streamjob.client.models import (
    ChainView,
    CheckpointsView,
    JobState,
    JobView,
    LastCheckpointView,
    MigratingView,
    ReplayingView,
    RewritingView,
    SnapshotKind,
)
from streamjob.client.terminal import Canvas, draw, draw_status
from streamjob.ids import OperatorUid
from streamjob_runtime.control.terminal import Quiet, StandardErrorHandler, open_view
from streamjob_runtime.control.terminal.live import LiveView
from streamjob_runtime.control.terminal.plain import PlainView, progress_line

GOLDEN = Path(__file__).parent / "golden"
HISTORY = ("completed", "failed", "completed", "savepoint", "running")
KAFKA = {"sources": [{"uid": "flights", "format": "kafka"}, {"uid": "weather", "format": "csv"}]}


@dataclass(frozen=True)
class Case:
    """A job, its checkpoints, the views that have something to show, and the space of the panel."""

    job: JobView
    history: tuple[str, ...] = HISTORY
    views: tuple[str, ...] = ("panel", "status", "line")
    width: int = 88
    height: int = 40


def _last(**changes: Any) -> LastCheckpointView:
    last = several_chains().last_checkpoint
    assert last is not None
    return last.model_copy(update=changes)


def _chains(job: JobView, *changes: dict[str, Any]) -> tuple[ChainView, ...]:
    """Return the job's chains, the first ones changed."""
    return tuple(
        chain.model_copy(update=change)
        for chain, change in zip(job.chains, (*changes, *[{}] * len(job.chains)), strict=False)
    )


def _out_of_the_ordinary() -> JobView:
    behind: dict[str, Any] = {
        "lag_ms": 60_000,
        "holds_watermark_back": True,
        "idle_seconds": 134.0,
        "records_not_decoded": 3,
    }
    strays: dict[str, Any] = {
        "records_late": 1200,
        "late_by_ms": 28_800_000,
        "records_ahead": 1,
        "farthest_ms": 32_472_144_000_000,
    }
    left_out = {"lag_ms": 12_000, "ended": False, "idle": True, "idle_seconds": 134.0}
    job = with_inputs(a_job(), behind | strays, left_out)
    rows: dict[str, Any] = {
        "records_dropped_late": {"hours": 1200, "report": 0},
        "rows_without_event_time": {"hours": 5},
    }
    return a_job(chains=_chains(job, rows | {"rows_failed": {"hours": 2}}))


def _not_known() -> JobView:
    job = several_chains(graph=KAFKA)
    unknown = {"watermark_ms": None, "lag_ms": None}
    flights = with_inputs(job, unknown).chains[0].model_copy(update={"last_batch_ms": None, "batch": -1})
    hours = job.chains[1].model_copy(update={"inputs": (job.chains[1].inputs[0].model_copy(update=unknown),)})
    empty, full = job.channels
    sink = {"delivery": "at-least-once", "records": None, "last_published": None, "failures": 2}
    return job.model_copy(
        update={
            "chains": (flights, hours, job.chains[2]),
            "channels": (empty, full.model_copy(update={"lag_ms": None, "work_seconds": None})),
            "sinks": (job.sinks[0].model_copy(update=sink),),
        }
    )


def _one_chain_finished_and_one_in_a_long_batch() -> JobView:
    running = {"running_seconds": 12.0, "running_records": 20_000}
    return several_chains(
        chains=_chains(several_chains(), {"finished": True}, running),
        last_checkpoint=_last(unaligned=False),
        starts=1,
    )


def _many_chains() -> JobView:
    hours = several_chains().chains[1]
    names = ("a-chain-with-a-name-that-is-much-too-long", *(f"chain-{number}" for number in range(29)))
    return several_chains(chains=tuple(hours.model_copy(update={"uid": name}) for name in names))


_NOT_BEGUN: dict[str, Any] = {"chains": (), "sinks": (), "last_checkpoint": None, "restored_from": None, "epoch": None}

CASES = {
    "a running job": Case(a_job()),
    "a running job with little room": Case(a_job(), width=60, height=20, views=("panel",)),
    "a long batch while checkpoints go well": Case(
        a_job(chains=_chains(a_job(), {"running_seconds": 12.0, "running_records": 20_000})),
        ("completed",) * 5,
        views=("panel",),
    ),
    "several chains": Case(several_chains(), ("completed", "failed", "unaligned", "savepoint", "running"), height=24),
    "several chains with little room": Case(
        several_chains(), ("completed", "unaligned"), width=60, height=24, views=("panel",)
    ),
    "several chains with much room": Case(several_chains(), width=180, views=("panel",)),
    "one chain finished and one in a long batch": Case(_one_chain_finished_and_one_in_a_long_batch(), ("completed",)),
    "more chains than there is room for": Case(_many_chains(), (), height=24, views=("panel",)),
    "two of three executors": Case(a_job(executors=executors(2, wanted=3)), ()),
    "a hundred executors": Case(a_job(executors=executors(100)), views=("panel",)),
    "a job that waits for its executors": Case(
        a_job(**_NOT_BEGUN, state=JobState.CREATED, executors=executors(0, wanted=2)), ()
    ),
    "a job that rewrites its state": Case(
        a_job(
            **_NOT_BEGUN, state=JobState.RESTORING, restarts=0, rewriting=RewritingView(partitions=4, max_parallelism=8)
        ),
        (),
    ),
    "a job that migrates its state": Case(
        a_job(
            **_NOT_BEGUN,
            state=JobState.RESTORING,
            restarts=0,
            migrating=MigratingView(operators=(OperatorUid("counts"),), step="writing", done=3, partitions=8),
        ),
        (),
    ),
    "a job that runs published batches again": Case(a_job(replaying=ReplayingView(done=3, batches=8)), ()),
    "a restarting job": Case(a_job(state=JobState.RESTARTING, failure="no heap", starts=9), ("failed",)),
    "a failed job": Case(a_job(state=JobState.FAILED, failure="disk full\nTraceback …"), ()),
    "a finished job": Case(
        a_job(state=JobState.FINISHED, last_checkpoint=_last(kind=SnapshotKind.FINAL)),
        ("completed", "unaligned", "completed"),
    ),
    "what is out of the ordinary": Case(_out_of_the_ordinary(), ()),
    "what is not known": Case(_not_known(), ()),
    "a topic of many partitions": Case(
        # A lag of a day tells nothing.
        with_inputs(with_partitions(range(20)), {"lag_ms": 86_400_000}, {"lag_ms": 5_000, "ended": False}),
        (),
    ),
    "a topic read through a channel": Case(
        read_through_a_channel(with_partitions([5, 1200]).model_copy(update={"graph": KAFKA})), ()
    ),
    "files in buckets": Case(
        with_inputs(
            a_job(),
            {"files_unread": 1200, "bytes_unread": 3_400_000_000},
            {"files_unread": 0, "bytes_unread": 0, "ended": False},
        ),
        (),
        views=("status", "line"),
    ),
    "tables and lookups": Case(a_job(**tables_and_lookups()), (), views=("status",)),
}


def _text(job: JobView, statistics: CheckpointsView, width: int = 88, height: int = 40, now: float = NOW) -> str:
    file = io.StringIO()
    console = Console(file=file, width=width, color_system=None, force_terminal=False)
    rates = [0.0, 20_000.0, 45_210.0]
    console.print(draw(job, statistics, now=now, rates=rates, canvas=Canvas(width, height)))
    return file.getvalue()


def _status(job: JobView, statistics: CheckpointsView) -> str:
    file = io.StringIO()
    found = diagnose(job, statistics, Circumstances(now=NOW))
    Console(file=file, width=140, color_system=None).print(draw_status(job, statistics, found, now=NOW, width=140))
    return file.getvalue()


def _file(name: str) -> str:
    return name.replace(" ", "-")


@pytest.mark.parametrize("name", CASES)
def test_people_see_what_the_golden_file_has(name: str) -> None:
    case = CASES[name]
    statistics = checkpoints(*case.history)
    views = {
        "panel": lambda: _text(case.job, statistics, case.width, case.height),
        "status": lambda: _status(case.job, statistics),
        "line": lambda: progress_line(case.job, NOW),
    }

    compare(GOLDEN / f"{_file(name)}.txt", "\n".join(views[view]() for view in case.views))


def test_each_golden_file_is_of_a_case() -> None:
    assert {file.stem for file in GOLDEN.iterdir()} == {_file(name) for name in CASES}


def test_a_checkpoint_has_a_line_once_it_takes_long() -> None:
    assert "#12" not in _text(a_job(), checkpoints("running"), now=START + 101.9)
    assert "0 of 1 acknowledged" in _text(a_job(), checkpoints("running"), now=START + 102)


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120, 172, 300])
@pytest.mark.parametrize("height", [5, 20, 60])
@pytest.mark.parametrize(
    "job", [a_job(), several_chains(), with_partitions([5])], ids=["one chain", "several", "topic"]
)
def test_no_line_is_wider_than_the_terminal(job: JobView, width: int, height: int) -> None:
    text = _text(job, checkpoints(*HISTORY), width=width, height=height)

    assert max(len(line) for line in text.splitlines()) <= width


def test_markup_in_names_and_messages_is_shown_as_it_is() -> None:
    job = a_job(state=JobState.RESTARTING, failure="expected [bold] but got [/]", name="a[red]b")

    text = _text(job, checkpoints())

    assert "expected [bold] but got [/]" in text
    assert "a[red]b" in text


class Screen(io.StringIO):
    """A file that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Screen:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    return Screen()


def test_a_terminal_gets_the_live_view(terminal: Screen) -> None:
    view = open_view(console=Console(file=terminal))
    view.close()

    assert isinstance(view, LiveView)


def test_a_terminal_that_cannot_move_its_cursor_gets_lines(terminal: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")

    assert isinstance(open_view(console=Console(file=terminal)), PlainView)


def test_a_file_gets_lines_and_a_quiet_run_nothing() -> None:
    quiet = open_view(quiet=True)
    quiet.update(a_job(), checkpoints())
    quiet.message("hello")
    quiet.close()

    assert isinstance(open_view(console=Console(file=io.StringIO())), PlainView)
    assert isinstance(quiet, Quiet)


@pytest.mark.parametrize("no_color", [False, True])
def test_no_color_is_honoured(terminal: Screen, monkeypatch: pytest.MonkeyPatch, no_color: bool) -> None:
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    view = LiveView(Console(file=terminal, width=88), clock=lambda: NOW, animate=False)
    view.update(a_job(), checkpoints(*HISTORY))
    view.close()

    assert ("\x1b[32m" in terminal.getvalue()) is not no_color


def test_the_live_view_tells_notable_events_above_the_panel_and_leaves_the_terminal_as_it_was(terminal: Screen) -> None:
    stdout, stderr = sys.stdout, sys.stderr
    view = LiveView(Console(file=terminal, width=88, color_system=None), clock=lambda: NOW, animate=False)
    view.message("snapshots are in [s3]://bucket")
    view.update(a_job(), checkpoints("completed"))
    view.update(a_job(state=JobState.FINISHED), checkpoints("completed", "failed"))
    view.close()
    view.close()
    written = terminal.getvalue()

    assert "snapshots are in [s3]://bucket" in written
    assert "checkpoint 13 failed: a chain could not" in written
    assert "checkpoint 12 completed in" not in written
    assert written.rindex("flights ● FINISHED") > written.rindex("flights is FINISHED after")
    assert written.rstrip().endswith("\x1b[?25h")
    assert (sys.stdout, sys.stderr) == (stdout, stderr)


def test_a_failure_for_good_is_told_once(terminal: Screen) -> None:
    view = LiveView(Console(file=terminal, width=88, color_system=None), clock=lambda: NOW, animate=False)
    view.update(a_job(state=JobState.RESTARTING, failure="the network is away"), checkpoints())
    view.update(a_job(state=JobState.FAILED, failure="disk full"), checkpoints())
    view.close()
    left = terminal.getvalue()

    assert "flights is RESTARTING: the network is away" in left
    assert "flights is FAILED" not in left
    assert "│ disk full  " in left


def test_the_terminal_is_left_alone_until_there_is_something_to_draw(terminal: Screen) -> None:
    view = LiveView(Console(file=terminal, width=88, color_system=None))
    view.message("an error that comes early")
    view.close()
    view.update(a_job(), checkpoints())

    assert terminal.getvalue().count("\x1b") == 0


def test_log_records_go_to_what_standard_error_is_at_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    handler = StandardErrorHandler()
    record = logging.makeLogRecord({"msg": "after the fact"})
    late = io.StringIO()
    monkeypatch.setattr(sys, "stderr", late)

    handler.emit(record)

    assert late.getvalue() == "after the fact\n"


def test_plain_lines_tell_every_event_but_routine_checkpoints_and_progress_now_and_then() -> None:
    file, now = io.StringIO(), [NOW]
    view = PlainView(file, every=5.0, clock=lambda: now[0])
    view.message("snapshots are in s3://bucket")
    view.update(a_job(), checkpoints("completed"))
    now[0] += 4
    view.update(a_job(), checkpoints("completed", "running"))
    now[0] += 1
    view.update(a_job(last_checkpoint=None), checkpoints("completed", "running"))
    view.update(a_job(state=JobState.FINISHED), checkpoints("completed", "failed"))
    view.close()

    watermarks = "watermark flights 2013-03-04 12:00:00, weather 2013-03-04 12:00:00"
    records = "RUNNING  in 1,234,567 (45,210/s), out 23,456 since 22:13:20"
    assert file.getvalue().splitlines() == [
        "22:15:34  snapshots are in s3://bucket",
        "22:15:34  weather has reached its end",
        "22:15:34  flights is RUNNING, restored from checkpoint 12",
        f"22:15:34  {records}  {watermarks}  checkpoint 14 3 s ago, 14 MB",
        f"22:15:39  {records}  {watermarks}  restored from checkpoint 12, completed 45 s ago",
        "22:15:39  checkpoint 13 failed: a chain could not write its files to the store: 503 Slow Down",
        "22:15:39  flights is FINISHED after 2m 14s: 1,234,567 records in, 23,456 out",
    ]


def test_sums_of_a_process_that_runs_for_days_have_the_date() -> None:
    assert "out 23,456 since 2023-11-14 22:13:20  watermark" in progress_line(a_job(), START + 90_000)


def test_a_reader_that_went_away_does_not_fail_the_job() -> None:
    file = io.StringIO()
    view = PlainView(file)
    file.close()

    view.message("nobody reads this")
    view.update(a_job(), checkpoints())
    view.close()
