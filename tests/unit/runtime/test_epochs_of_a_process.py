"""State that the epochs of one process, and their clients, share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from streamjob.errors import ExitCode, ProcessUnfit
from streamjob.ids import Attempt, CheckpointId, TriggerId
from streamjob.protocol.coordination import messages as m
from streamjob.protocol.coordination.triggers import TriggerState
from streamjob.protocol.lifecycle import JobState
from streamjob.protocol.restarts import RestartPolicy
from streamjob.store.base import AccessDenied
from streamjob_runtime.chain.ending.end_of_chains import EpochNotEnded
from streamjob_runtime.checkpointing.ledger import RestoreFrom
from streamjob_runtime.job import coordination as coordination_module
from streamjob_runtime.job import runner as runner_module
from streamjob_runtime.job.coordination import Coordination
from streamjob_runtime.job.epoch import EpochEnd, EpochOutcome
from streamjob_runtime.job.runner import Runner, RunOptions
from streamjob_runtime.sinks.errors import UnusablePlace


def runner_in(workdir: Path, unfit: Callable[[float], ProcessUnfit | None] = lambda patience: None) -> Runner:
    spec = SimpleNamespace(checkpointing=SimpleNamespace())
    job = SimpleNamespace(
        workdir=workdir,
        clock=lambda: 0.0,
        plan=SimpleNamespace(chains=()),
        available_now=False,
        loaded=SimpleNamespace(spec=spec),
        unfit=unfit,
    )
    return Runner(
        cast("Any", job), cast("Any", None), RunOptions(RestoreFrom(), Attempt(0), RestartPolicy(initial_delay=0.001))
    )


def run_epoch(runner: Runner, number: int, held: Path | None, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Run an epoch that does nothing; return the content of the work directory."""
    found: list[str] = []

    class FakeEpoch:
        held = None
        left: tuple[str, ...] = ()

        def __init__(self, *_: Any) -> None:
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


def test_an_event_is_refused_once_nobody_will_look_at_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handled: list[m.Event] = []
    coordinator = SimpleNamespace(handle=handled.append, last_id=0)
    monkeypatch.setattr(coordination_module, "Coordinator", lambda **_: coordinator)
    coordination, events = runner_in(tmp_path).coordination, list[m.Event]()
    assert not coordination.post(m.Tick(now=0.0))
    coordination.begin(CheckpointId(0), events.append)
    assert coordination.post(m.Tick(now=1.0))

    coordination.end_epoch(events)

    assert handled == [m.Tick(now=1.0), m.EpochEnded(now=0.0)]
    assert not coordination.post(m.Tick(now=2.0))


def test_an_event_is_refused_between_the_claim_of_an_epoch_and_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The epoch before may have died between the two, and nobody reads its queue any more."""
    monkeypatch.setattr(coordination_module, "Coordinator", lambda **_: SimpleNamespace(last_id=0))
    coordination, events = runner_in(tmp_path).coordination, list[m.Event]()
    coordination.begin(CheckpointId(0), events.append)

    coordination.claimed(cast("Any", SimpleNamespace(epoch=2)))

    assert not coordination.post(m.Tick(now=0.0))
    assert events == []


def run_job(workdir: Path, monkeypatch: pytest.MonkeyPatch, *epochs: str, runner: Runner | None = None) -> ExitCode:
    """Run a job whose epochs end as planned: `run and fail`, `refuse`, `deny`, `move`, `finish`."""
    script = list(epochs)

    class FakeEpoch:
        held = None
        left: tuple[str, ...] = ()

        def __init__(self, *arguments: Any) -> None:
            self._coordination: Coordination = arguments[-1]

        def run(self) -> EpochOutcome:
            step = script.pop(0)
            if step == "lose the connection":
                raise UnusablePlace("the topic cannot be read") from ConnectionRefusedError("Connection refused")
            if step == "deny":
                raise AccessDenied("sink report: cannot list s3://bucket/out")
            if step == "refuse":
                raise UnusablePlace("sink path /out: may not be written")
            if step == "run and fail":
                self._coordination.restored(None)
                return EpochOutcome(EpochEnd.FAILED)
            return EpochOutcome(EpochEnd.RESTARTED if step == "move" else EpochEnd.FINISHED)

    monkeypatch.setattr(runner_module, "Epoch", FakeEpoch)
    ledger = cast("Any", SimpleNamespace(epoch=1, log=SimpleNamespace(claim=SimpleNamespace(newest=None))))
    monkeypatch.setattr(Runner, "_claim", lambda self: ledger)
    return (runner or runner_in(workdir)).run()


def test_only_an_epoch_that_failed_counts_as_restarted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = runner_in(tmp_path)

    assert run_job(tmp_path, monkeypatch, "run and fail", "move", "move", "finish", runner=runner) is ExitCode.OK
    assert runner.coordination.lifecycle.restarts == 1


def test_what_is_refused_before_the_job_ever_ran_is_invalid_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UnusablePlace):
        run_job(tmp_path, monkeypatch, "refuse", "finish")


def test_a_store_that_refuses_a_job_that_never_ran_ends_the_process_for_another_with_other_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AccessDenied) as raised:
        run_job(tmp_path, monkeypatch, "deny", "finish")

    assert raised.value.exit_code is ExitCode.FAILED


def test_what_is_refused_after_the_job_has_run_is_a_failure_like_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_job(tmp_path, monkeypatch, "run and fail", "refuse", "deny", "finish") is ExitCode.OK


@pytest.mark.parametrize("failure", ["run and fail", "refuse", "lose the connection"])
def test_no_epoch_follows_in_a_process_whose_spark_has_ended(
    failure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = ProcessUnfit("Spark's process has ended: SIGKILL ended it")
    waits: list[float] = []

    def unfit(patience: float) -> ProcessUnfit | None:
        waits.append(patience)
        return gone

    runner = runner_in(tmp_path, unfit)

    with pytest.raises(ProcessUnfit) as raised:
        run_job(tmp_path, monkeypatch, failure, "finish", runner=runner)

    assert raised.value is gone
    assert runner.coordination.lifecycle.state is JobState.FAILED
    # A connection is closed before its process has ended.
    assert waits == [1.0 if failure == "lose the connection" else 0.0]


def test_a_stop_while_no_epoch_runs_is_told_to_have_taken_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = runner_in(tmp_path)
    runner.coordination.stop_now(TriggerId("one"))
    runner.coordination.stop_now(TriggerId("two"))

    assert run_job(tmp_path, monkeypatch, "run and fail", runner=runner) is ExitCode.OK

    assert runner.coordination.lifecycle.state is JobState.STOPPED
    for trigger_id in ("one", "two"):
        status = runner.coordination.request(TriggerId(trigger_id))
        assert status is not None
        assert status.state is TriggerState.COMPLETED


def test_no_epoch_begins_while_the_one_before_has_a_query_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []

    class LeftEpoch:
        held = None
        left = ("the query of chain 'clean' is active",)

        def __init__(self, *_: Any) -> None:
            pass

        def run(self) -> EpochOutcome:
            begun.append(1)
            return EpochOutcome(EpochEnd.FAILED, "the goods are on fire")

    runner = runner_in(tmp_path)
    monkeypatch.setattr(runner_module, "Epoch", LeftEpoch)
    monkeypatch.setattr(
        runner, "_claim", lambda: SimpleNamespace(epoch=1, log=SimpleNamespace(claim=SimpleNamespace(newest=None)))
    )

    with pytest.raises(EpochNotEnded, match="'clean' is active"):
        runner.run()

    assert begun == [1]
    assert runner.coordination.lifecycle.state is JobState.FAILED
