"""What the epochs of one process leave to each other, and to whoever talks to them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from streamjob.errors import ExitCode
from streamjob.ids import Attempt, TriggerId
from streamjob.protocol import messages as m
from streamjob.protocol.lifecycle import JobState
from streamjob.protocol.restarts import RestartPolicy
from streamjob.protocol.triggers import TriggerState
from streamjob_runtime.chain.end_of_chains import EpochNotEnded
from streamjob_runtime.checkpointing.ledger import RestoreFrom
from streamjob_runtime.job import runner as runner_module
from streamjob_runtime.job.epoch import Epoch, EpochEnd, EpochOutcome
from streamjob_runtime.job.runner import Runner, RunOptions
from streamjob_runtime.sinks.errors import UnusablePlace


def runner_in(workdir: Path) -> Runner:
    spec = SimpleNamespace(checkpointing=SimpleNamespace())
    job = SimpleNamespace(workdir=workdir, clock=lambda: 0.0, loaded=SimpleNamespace(spec=spec))
    return Runner(
        cast("Any", job), cast("Any", None), RunOptions(RestoreFrom(), Attempt(0), RestartPolicy(initial_delay=0.001))
    )


def run_epoch(runner: Runner, number: int, held: Path | None, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Run an epoch that does nothing; return what it finds in the work directory."""
    found: list[str] = []

    class FakeEpoch:
        coordinator = None
        held = None
        left: tuple[str, ...] = ()

        def __init__(self, **_: Any) -> None:
            pass

        def run(self) -> EpochOutcome:
            found.extend(sorted(each.name for each in runner.job.workdir.iterdir()))
            return EpochOutcome(EpochEnd.FAILED)

    monkeypatch.setattr(runner_module, "Epoch", FakeEpoch)
    runner._run_epoch(cast("Any", SimpleNamespace(epoch=number)), RestoreFrom(), held)
    return found


def test_an_epoch_finds_no_directory_of_its_number_from_the_log_of_another_location(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "1" / "chain" / "checkpoint").mkdir(parents=True)
    (tmp_path / "process-7").mkdir()

    assert run_epoch(runner_in(tmp_path), 1, None, monkeypatch) == ["process-7"]


def test_a_restore_finds_the_space_that_failed_ones_before_it_took_and_the_files_that_are_still_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = tmp_path / "3" / "holds" / "17"
    held.mkdir(parents=True)
    for failed in ("4", "5"):
        (tmp_path / failed / "chain").mkdir(parents=True)

    assert run_epoch(runner_in(tmp_path), 6, held, monkeypatch) == ["3"]


def test_an_event_is_refused_once_nobody_will_look_at_it(tmp_path: Path) -> None:
    handled: list[m.Event] = []
    runner = runner_in(tmp_path)
    epoch = Epoch(
        job=runner.job,
        ledger=cast("Any", SimpleNamespace(epoch=1)),
        restore_from=RestoreFrom(),
        coordinate=cast("Any", None),
        state_lock=runner.lock,
        held=None,
        stopped=False,
        on_state=lambda state: None,
        on_restored=lambda epoch: None,
        on_completed=lambda action, manifest: None,
        on_discarded=lambda checkpoint: None,
    )
    runner.epoch = epoch
    assert not runner.post(m.Tick(now=0.0))
    epoch.coordinator = cast("Any", SimpleNamespace(handle=handled.append))
    assert runner.post(m.Tick(now=1.0))

    epoch._settle()

    assert handled == [m.Tick(now=1.0), m.EpochEnded(now=0.0)]
    assert not runner.post(m.Tick(now=2.0))


def run_job(workdir: Path, monkeypatch: pytest.MonkeyPatch, *epochs: str, runner: Runner | None = None) -> ExitCode:
    """Run a job whose epochs end as they are told: `run and fail`, `refuse`, `finish`."""
    script = list(epochs)

    class FakeEpoch:
        coordinator = None
        restored = None
        held = None
        left: tuple[str, ...] = ()

        def __init__(self, *, on_restored: Any, **_: Any) -> None:
            self._on_restored = on_restored

        def run(self) -> EpochOutcome:
            step = script.pop(0)
            if step == "refuse":
                raise UnusablePlace("sink path /out: may not be written")
            if step == "run and fail":
                self._on_restored(self)
                return EpochOutcome(EpochEnd.FAILED)
            return EpochOutcome(EpochEnd.FINISHED)

    monkeypatch.setattr(runner_module, "Epoch", FakeEpoch)
    ledger = cast("Any", SimpleNamespace(epoch=1, newest_epoch=None))
    monkeypatch.setattr(Runner, "_claim", lambda self: ledger)
    return (runner or runner_in(workdir)).run()


def test_what_is_refused_before_the_job_ever_ran_is_invalid_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UnusablePlace):
        run_job(tmp_path, monkeypatch, "refuse", "finish")


def test_what_is_refused_after_the_job_has_run_is_a_failure_like_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_job(tmp_path, monkeypatch, "run and fail", "refuse", "refuse", "finish") is ExitCode.OK


def test_a_stop_while_no_epoch_runs_is_told_to_have_taken_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = runner_in(tmp_path)
    runner.stop_now(TriggerId("one"))
    runner.stop_now(TriggerId("two"))

    assert run_job(tmp_path, monkeypatch, "run and fail", runner=runner) is ExitCode.OK

    assert runner.lifecycle.state is JobState.STOPPED
    for trigger_id in ("one", "two"):
        status = runner.triggers.status(TriggerId(trigger_id))
        assert status is not None
        assert status.state is TriggerState.COMPLETED


def test_no_epoch_begins_while_the_one_before_has_a_query_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []

    class LeftEpoch:
        coordinator = None
        restored = None
        held = None
        left = ("the query of chain 'clean' is active",)

        def __init__(self, **_: Any) -> None:
            pass

        def run(self) -> EpochOutcome:
            begun.append(1)
            return EpochOutcome(EpochEnd.FAILED, "the goods are on fire")

    runner = runner_in(tmp_path)
    monkeypatch.setattr(runner_module, "Epoch", LeftEpoch)
    monkeypatch.setattr(runner, "_claim", lambda: SimpleNamespace(epoch=1, newest_epoch=None))

    with pytest.raises(EpochNotEnded, match="'clean' is active"):
        runner.run()

    assert begun == [1]
    assert runner.lifecycle.state is JobState.FAILED
