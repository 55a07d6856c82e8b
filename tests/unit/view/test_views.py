"""How a job is drawn, as plain text of a fixed width."""

from __future__ import annotations

import io
import logging
import sys
import time
from collections.abc import Iterator
from textwrap import dedent

import pytest
from rich.console import Console
from tests.unit.view.samples import CHAIN, NOW, START, a_job, checkpoints, executors, several_chains, with_partitions

from streamjob.client.models import CheckpointsView, JobState, JobView, SnapshotKind
from streamjob_runtime.control.terminal import Quiet, StandardErrorHandler, open_view
from streamjob_runtime.control.terminal.events import Look
from streamjob_runtime.control.terminal.live import LiveView
from streamjob_runtime.control.terminal.panel import Canvas, draw
from streamjob_runtime.control.terminal.plain import PlainView, progress_line

HISTORY = ("completed", "failed", "completed", "savepoint", "running")


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the time of day be the same everywhere."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def _text(job: JobView, statistics: CheckpointsView, width: int = 88, height: int = 40) -> str:
    file = io.StringIO()
    console = Console(file=file, width=width, color_system=None, force_terminal=False)
    rates = [0.0, 20_000.0, 45_210.0]
    console.print(draw(Look(job, statistics), now=NOW, rates=rates, canvas=Canvas(width, height)))
    return file.getvalue()


def test_a_running_job() -> None:
    expected = """\
        ╭─ flights ● RUNNING ──────────────────────────────────────────────────────────────────╮
        │ up 2m 14s  ·  epoch 3  ·  1 restart  ·  restored from checkpoint 12                  │
        │                                                                                      │
        │ records in   1,234,567  45,210/s  ▁▄█                                                │
        │ records out     23,456     812/s  batch 41 took 1.3 s                                │
        │                                                                                      │
        │ input    watermark                                                                   │
        │ flights  2013-03-04 12:00:00                                                         │
        │ weather  2013-03-04 12:00:00  ended                                                  │
        │                                                                                      │
        │ checkpoints  3 completed  ·  1 failed  ·  last 3 s ago, 14 MB in all  ·  written ▃▆█ │
        │ #16  22:15:32  checkpoint    2.0 s               0 of 1 acknowledged                 │
        │ #15  22:15:24  savepoint     1.7 s ━━━━━━━━━━━━   4.8 MB of 14 MB                    │
        │ #13  22:15:08  checkpoint   failed               a chain could not write its files … │
        │                                                                                      │
        │ output  report  parquet, exactly-once  output                                        │
        ╰──────────────────────────────────────────────────────────────────────────────────────╯
        """

    assert _text(a_job(), checkpoints(*HISTORY)) == dedent(expected)


def test_a_job_on_executors_has_a_row_for_each() -> None:
    expected = """\
        │ executors  2 of 3  ·  1 lost  ·  skew of state 1.4  ·  skew of work 1.2              │
        │ executor          in  busy          partitions       rows   state                    │
        │ executor-0  22,600/s   95 % ━━━━━━          12  1,200,000   12 MB                    │
        │ executor-1  22,600/s   42 % ━━━              4    400,000  4.0 MB                    │
        """

    lines = _text(a_job(executors=executors(2, wanted=3)), checkpoints(*HISTORY)).splitlines()

    begin = next(index for index, line in enumerate(lines) if "executors" in line)
    assert lines[begin : begin + 4] == dedent(expected).splitlines()


def test_of_many_executors_the_busiest_have_rows() -> None:
    text = _text(a_job(executors=executors(100)), checkpoints(*HISTORY))

    assert "executors  100 of 100" in text
    assert "executor-0 " in text
    assert "and 95 more" in text
    assert "executor-50" not in text


def test_a_job_that_waits_for_its_executors_says_so() -> None:
    waiting = a_job(state=JobState.CREATED, chains=(), executors=executors(0, wanted=2))

    assert "executors  0 of 2" in _text(waiting, checkpoints())
    assert "executors 1 of 2" in progress_line(a_job(executors=executors(1, wanted=2)), NOW)


def test_a_running_job_where_there_is_little_room() -> None:
    expected = """\
        ╭─ flights ● RUNNING ──────────────────────────────────────╮
        │ up 2m 14s  ·  epoch 3  ·  1 restart  ·  restored from c… │
        │                                                          │
        │ records in   1,234,567  45,210/s                         │
        │ records out     23,456     812/s  batch 41 took 1.3 s    │
        │                                                          │
        │ input    watermark                                       │
        │ flights  2013-03-04 12:00:00                             │
        │ weather  2013-03-04 12:00:00  ended                      │
        │                                                          │
        │ checkpoints  3 completed  ·  1 failed  ·  last 3 s ago   │
        │ #16  22:15:32  checkpoint    2.0 s  0 of 1 acknowledged  │
        │ #15  22:15:24  savepoint     1.7 s   4.8 MB of 14 MB     │
        │ #13  22:15:08  checkpoint   failed  a chain could not w… │
        │                                                          │
        │ output  report  parquet  output                          │
        ╰──────────────────────────────────────────────────────────╯
        """

    assert _text(a_job(), checkpoints(*HISTORY), width=60, height=20) == dedent(expected)


def test_a_job_of_several_chains() -> None:
    expected = """\
        ╭─ flights ● RUNNING ──────────────────────────────────────────────────────────────────╮
        │ up 2m 14s  ·  epoch 3  ·  1 restart  ·  restored from checkpoint 12                  │
        │                                                                                      │
        │ records in   1,234,567  45,210/s  ▁▄█                                                │
        │ records out     23,456     812/s                                                     │
        │                                                                                      │
        │ chain          in      out  watermark            backpressure  in flight             │
        │ flights  45,210/s    812/s  2013-03-04 12:00:00    0 %                               │
        │ hours    44,000/s  1,500/s  2013-03-04 11:59:00   72 % ━━━━    0                     │
        │ report      812/s    812/s  2013-03-04 11:00:00    0 %         12,345  95 % full     │
        │                                                                                      │
        │ input    watermark                                                                   │
        │ flights  2013-03-04 12:00:00                                                         │
        │ weather  2013-03-04 12:00:00  ended                                                  │
        │                                                                                      │
        │ checkpoints  3 completed  ·  1 failed  ·  last 3 s ago, unaligned after 1.2 s        │
        │ #16  22:15:32  aligned       2.0 s               0 of 1 acknowledged                 │
        │ #15  22:15:24  savepoint     1.7 s ━━━━━━━━━━━━   4.8 MB of 14 MB                    │
        │                                                                                      │
        │ output  report  parquet, exactly-once  output                                        │
        ╰──────────────────────────────────────────────────────────────────────────────────────╯
        """
    history = ("completed", "failed", "unaligned", "savepoint", "running")

    assert _text(several_chains(), checkpoints(*history), height=24) == dedent(expected)


def test_a_job_of_several_chains_where_there_is_little_room() -> None:
    expected = """\
        ╭─ flights ● RUNNING ──────────────────────────────────────╮
        │ up 2m 14s  ·  epoch 3  ·  1 restart  ·  restored from c… │
        │                                                          │
        │ records in   1,234,567  45,210/s                         │
        │ records out     23,456     812/s                         │
        │                                                          │
        │ chain          in  backpressure  in flight               │
        │ flights  45,210/s    0 %                                 │
        │ hours    44,000/s   72 %         0                       │
        │ report      812/s    0 %         12,345                  │
        │                                                          │
        │ input    watermark                                       │
        │ flights  2013-03-04 12:00:00                             │
        │ weather  2013-03-04 12:00:00  ended                      │
        │                                                          │
        │ checkpoints  2 completed  ·  0 failed  ·  last 3 s ago   │
        │                                                          │
        │ output  report  parquet  output                          │
        ╰──────────────────────────────────────────────────────────╯
        """

    assert _text(several_chains(), checkpoints("completed", "unaligned"), width=60, height=24) == dedent(expected)


def test_checkpoints_that_go_well_are_one_line() -> None:
    text = _text(a_job(), checkpoints("completed", "completed", "completed", "completed", "completed"))

    assert "checkpoints  5 completed" in text
    assert "#" not in text


def test_a_checkpoint_has_a_line_once_it_takes_long() -> None:
    def shown(after: float) -> str:
        file = io.StringIO()
        console = Console(file=file, width=88, color_system=None)
        look = Look(a_job(), checkpoints("running"))
        console.print(draw(look, now=START + 100 + after, rates=[], canvas=Canvas(88, 40)))
        return file.getvalue()

    assert "#12" not in shown(1.9)
    assert "0 of 1 acknowledged" in shown(2.0)


def test_a_wide_terminal_shows_work_and_results_side_by_side() -> None:
    lines = _text(several_chains(), checkpoints(*HISTORY), width=180).splitlines()

    assert {len(line) for line in lines} == {180}
    (heading,) = [line for line in lines if "records in" in line]
    assert "watermark" in heading
    assert len(lines) < len(_text(several_chains(), checkpoints(*HISTORY), width=110).splitlines())
    assert [line for line in lines if "#13" in line and "a chain could not write" in line]


def test_a_finished_chain_and_a_last_checkpoint_without_a_switch() -> None:
    job = several_chains()
    first, *others = job.chains
    assert job.last_checkpoint is not None
    last = job.last_checkpoint.model_copy(update={"unaligned": False})

    text = _text(
        several_chains(chains=(first.model_copy(update={"finished": True}), *others), last_checkpoint=last),
        checkpoints("completed"),
    )

    assert "2013-03-04 12:00:00  finished" in text
    assert "last 3 s ago, aligned in 1.2 s" in text


def test_chains_for_which_there_is_no_room_are_counted() -> None:
    chain = several_chains().chains[1]
    many = tuple(chain.model_copy(update={"uid": f"chain-{number}"}) for number in range(30))

    text = _text(several_chains(chains=many), checkpoints(), height=24)

    assert "and 22 more" in text
    assert text.count("chain-") == 8
    assert len(text.splitlines()) <= 24


def test_a_long_name_is_cut_and_the_figures_are_whole() -> None:
    chain = several_chains().chains[1].model_copy(update={"uid": "a-chain-with-a-name-that-is-much-too-long"})
    job = several_chains(chains=(chain, *several_chains().chains[1:]))

    text = _text(job, checkpoints())

    assert "a-chain-wi…  44,000/s" in text
    assert "2013-03-04 11:59:00   72 % ━━━━" in text


def test_the_final_record_is_called_final() -> None:
    last = a_job().last_checkpoint
    assert last is not None
    job = a_job(state=JobState.FINISHED, last_checkpoint=last.model_copy(update={"kind": SnapshotKind.FINAL}))

    text = _text(job, checkpoints("completed", "completed", "completed"))

    assert "#14  22:15:16  final " in text
    assert "#13" not in text


def test_a_lag_of_a_day_tells_nothing_and_is_not_shown() -> None:
    chain = a_job().chains[0]
    lags = {"flights": 86_400_000, "weather": 5_000}
    inputs = tuple(source.model_copy(update={"lag_ms": lags[source.uid], "ended": False}) for source in chain.inputs)

    text = _text(a_job(chains=(chain.model_copy(update={"inputs": inputs}),)), checkpoints())

    assert "flights  2013-03-04 12:00:00  –" in text
    assert "weather  2013-03-04 12:00:00  5.0 s" in text


def test_a_job_that_has_not_begun() -> None:
    expected = """\
        ╭─ flights ● RESTORING ────────────────────────────────────────────────────────────────╮
        │ up 2m 14s                                                                            │
        │                                                                                      │
        │ no chain has started yet                                                             │
        │                                                                                      │
        │ checkpoints  0 completed  ·  0 failed                                                │
        ╰──────────────────────────────────────────────────────────────────────────────────────╯
        """
    job = a_job(
        state=JobState.RESTORING, chains=(), sinks=(), last_checkpoint=None, restored_from=None, epoch=None, restarts=0
    )

    assert _text(job, checkpoints()) == dedent(expected)


def test_a_failed_job_says_why_and_its_rates_are_averages() -> None:
    text = _text(a_job(state=JobState.FAILED, failure="disk full\nTraceback …"), checkpoints())

    assert "● FAILED" in text
    assert "│ disk full  " in text
    assert "Traceback" not in text
    assert "ran 2m 14s" in text
    assert "9,213/s  on average" in text


def test_a_lag_is_shown_where_input_is_recent() -> None:
    chain = a_job().chains[0]
    inputs = tuple(source.model_copy(update={"lag_ms": 12_000, "ended": False}) for source in chain.inputs)

    text = _text(a_job(chains=(chain.model_copy(update={"inputs": inputs}),)), checkpoints())

    assert "watermark            lag" in text
    assert "2013-03-04 12:00:00  12 s" in text


def test_what_is_unread_of_a_topic_is_shown() -> None:
    job = with_partitions([5, 1200])

    text = _text(job, checkpoints())

    lines = [" ".join(line.strip("│ ").split()) for line in text.splitlines()]
    assert "input watermark unread" in lines
    assert "flights 2013-03-04 12:00:00 1,205" in lines
    assert "unread flights 1,205" in progress_line(job, NOW)


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


def test_a_line_of_progress_has_every_chain_that_works() -> None:
    job = several_chains()
    first, *others = job.chains

    line = progress_line(several_chains(chains=(first.model_copy(update={"finished": True}), *others)), NOW)

    assert line == (
        "RUNNING  in 1,234,567 (45,210/s), out 23,456 since 22:13:20  hours: 44,000/s, backpressure 72 %"
        "  report: 812/s, 12,345 in flight"
        "  watermark flights 2013-03-04 12:00:00, weather 2013-03-04 12:00:00  unaligned checkpoint 14 3 s ago, 14 MB"
    )


def test_a_batch_that_takes_long_is_in_the_line_of_progress_and_in_the_panel() -> None:
    (chain,) = a_job().chains
    running = {"running_seconds": 12.0, "running_records": 20_000}
    job = a_job(chains=(chain.model_copy(update=running),))
    several = several_chains()
    first, *others = several.chains
    several = several.model_copy(update={"chains": (first.model_copy(update=running), *others)})

    assert "out 23,456 since 22:13:20  batch of 20,000 records runs for 12 s  watermark" in progress_line(job, NOW)
    assert f"{CHAIN}: 45,210/s, batch of 20,000 records runs for 12 s  hours" in progress_line(several, NOW)
    assert "batch of 20,000 records runs for 12 s" in _text(job, checkpoints())


def test_sums_of_a_process_that_runs_for_days_have_the_date() -> None:
    assert "out 23,456 since 2023-11-14 22:13:20  watermark" in progress_line(a_job(), START + 90_000)


def test_a_reader_that_went_away_does_not_fail_the_job() -> None:
    file = io.StringIO()
    view = PlainView(file)
    file.close()

    view.message("nobody reads this")
    view.update(a_job(), checkpoints())
    view.close()
