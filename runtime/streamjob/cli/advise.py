"""`streamjob advise`: the number of task slots that fits a job's load, from a recorded trace or a running job."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError

from streamjob.autoscaling import (
    Decision,
    LoadReport,
    Memory,
    Policy,
    State,
    advise,
    read_load,
    sentence,
    write_load,
)
from streamjob.cli.control import Json, TokenFile, Url, Workdir, connected, duration
from streamjob.client import formatting
from streamjob.errors import InvalidInput

if TYPE_CHECKING:
    from streamjob.client.client import ControlClient


class BadTrace(InvalidInput):
    """A line of a trace is no report of a job's load."""


class BadPolicy(InvalidInput):
    """A policy of automatic scaling has fields that do not exist or values that do not fit."""


def advise_command(
    trace: Annotated[
        Path | None,
        typer.Argument(metavar="[TRACE]", help="A recorded trace. Default: a running job.", show_default=False),
    ] = None,
    url: Url = None,
    workdir: Workdir = None,
    token_file: TokenFile = None,
    policy_file: Annotated[
        Path | None,
        typer.Option("--policy", metavar="FILE", help="YAML file with limits and goals, like max, maxLag."),
    ] = None,
    slots: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Task slots of the running job. Default: as in its graph.")
    ] = None,
    record: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Append the reports of the running job to FILE, a trace.")
    ] = None,
    interval: Annotated[
        float, typer.Option(parser=duration, metavar="DURATION", help="Time between two looks at the running job.")
    ] = "10s",  # type: ignore[assignment]
    for_: Annotated[
        float | None,
        typer.Option("--for", parser=duration, metavar="DURATION", help="Time to watch. Default: until Ctrl-C."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Print every decision, not only changes.")] = False,
    as_json: Json = False,
) -> None:
    """Advise on the number of task slots of a job. Nothing is changed.

    Fits the cost of batches and the load from the job's counters, and prints the decision of the autoscaler with its
    reason, whenever it changes.
    """
    policy = _policy(policy_file)
    if trace is not None:
        if any(each is not None for each in (url, workdir, record, for_)):
            raise InvalidInput("a trace was given together with an option for a running job", "Use one of them.")
        _print(_advised(policy, _read(trace)), policy, every=every, as_json=as_json)
        return
    with connected(url, workdir, token_file) as (client, _):
        reports = _watched(client, slots, interval, for_)
        if record is not None:
            reports = _recorded(reports, record)
        try:
            _print(_advised(policy, reports), policy, every=every, as_json=as_json)
        except KeyboardInterrupt:
            return


def _policy(file: Path | None) -> Policy:
    from streamjob.job.loading.yaml_file import YamlError, read_documents

    if file is None:
        return Policy()
    try:
        documents = read_documents(file.read_text(encoding="utf-8"))
        return Policy.model_validate(documents[0] if documents else {})
    except OSError as error:
        raise InvalidInput(f"{file}: {error.strerror}", "Name a file that can be read.") from None
    except (YamlError, UnicodeDecodeError) as error:
        raise BadPolicy(f"the policy {file} is no YAML: {error}", "Correct the file.") from None
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, each['loc'])) or 'it'}: {each['msg']}" for each in error.errors())
        raise BadPolicy(f"the policy {file} cannot be used: {problems}", "Correct these fields.") from None


def _read(file: Path) -> Iterator[LoadReport]:
    try:
        with file.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield _report(line, file, number)
    except OSError as error:
        raise InvalidInput(f"{file}: {error.strerror}", "Name a file that can be read.") from None


def _report(line: str, file: Path, number: int) -> LoadReport:
    try:
        return read_load(line)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise BadTrace(
            f"{file}, line {number}, is no report of a load: {f'{where}: ' if where else ''}{first['msg']}",
            "Record a trace with `streamjob advise --record FILE`.",
        ) from None


def _watched(client: ControlClient, slots: int | None, interval: float, seconds: float | None) -> Iterator[LoadReport]:
    from streamjob.client.load_report import load_of

    begun = time.time()
    while True:
        now, job = time.time(), client.report()
        checkpoints = None if job.checkpointing is None else job.checkpointing.interval
        yield load_of(job, now=now, interval=checkpoints, slots=slots)
        if seconds is not None and time.time() + interval > begun + seconds:
            return
        time.sleep(interval)


def _recorded(reports: Iterable[LoadReport], file: Path) -> Iterator[LoadReport]:
    with file.open("a", encoding="utf-8") as lines:
        for load in reports:
            lines.write(json.dumps(write_load(load)) + "\n")
            lines.flush()
            yield load


def _advised(policy: Policy, reports: Iterable[LoadReport]) -> Iterator[tuple[LoadReport, Decision]]:
    memory = Memory()
    for load in reports:
        decision = advise(policy, memory, load)
        memory = decision.memory
        yield load, decision


def _print(decisions: Iterable[tuple[LoadReport, Decision]], policy: Policy, *, every: bool, as_json: bool) -> None:
    """Print the first decision, each that says something new, and the last."""
    shown: tuple[State, int | None] | None = None
    last: tuple[LoadReport, Decision] | None = None
    for load, decision in decisions:
        advice = (decision.state, decision.slots)
        last = None
        if every or shown is None or _differs(shown, advice):
            _print_one(load, decision, policy, as_json=as_json)
            shown = advice
        else:
            last = load, decision
    if last is not None:
        _print_one(*last, policy, as_json=as_json)


def _differs(shown: tuple[State, int | None], advice: tuple[State, int | None]) -> bool:
    """Return whether advice says something new: a few slots more or less while the load moves do not."""
    (state, slots), (new_state, new_slots) = shown, advice
    if state is not new_state or (slots is None) != (new_slots is None):
        return True
    return slots is not None and new_slots is not None and abs(new_slots - slots) > max(1, slots // 4)


def _print_one(load: LoadReport, decision: Decision, policy: Policy, *, as_json: bool) -> None:
    reason = sentence(decision, policy, load)
    if not as_json:
        typer.echo(f"{formatting.date_time(load.time)}  {decision.state:9}  {reason}")
        return
    written = {
        "time": load.time,
        "state": decision.state,
        "rule": decision.rule,
        "slots": load.slots,
        "recommended": decision.slots or load.slots,
        "means": decision.means,
        "reason": reason,
        "inputs": dict(decision.inputs),
    }
    typer.echo(json.dumps(written, ensure_ascii=False))
