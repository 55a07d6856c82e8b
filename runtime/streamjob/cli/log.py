"""`streamjob log`: repairs a damaged log, or lets its job continue from the intact records."""

from __future__ import annotations

import json
import time
import uuid
from typing import TYPE_CHECKING, Annotated

import typer

from streamjob.cli.control import Json
from streamjob.errors import ExitCode, InvalidInput
from streamjob.ids import Owner

if TYPE_CHECKING:
    from streamjob.protocol.log.repair import Plan

log_app = typer.Typer(
    name="log",
    help="Repair the log of a job.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@log_app.callback()
def _log() -> None:
    pass


@log_app.command("repair")
def repair_command(
    location: Annotated[
        str,
        typer.Argument(
            metavar="LOCATION", help="A location, or the root of a job in it (<location>/<namespace>/<name>)."
        ),
    ],
    namespace: Annotated[
        str | None,
        typer.Option(help="Namespace of the job. With --name alone: default.", metavar="NS", show_default=False),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the job.", metavar="NAME", show_default=False)] = None,
    newest: Annotated[
        str | None,
        typer.Option(
            help="The checkpoint that completed last, if no readable record names it: its directory or manifest.",
            metavar="SNAPSHOT",
            show_default=False,
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Execute the plan. Without this option, only the plan is shown.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Repair a damaged log. Shows the plan; --yes executes it.

    Records are restored from their copies. If that is not enough, the log continues from its newest intact completion:
    the command claims the log, and a process that still runs the job ends as superseded. No snapshot is deleted or
    changed. Ends with exit code 3 if the log stays damaged.
    """
    from streamjob.protocol.log.repair import plan_repair, repair
    from streamjob.protocol.log.restore import normalise
    from streamjob.store.base import StoreDenied
    from streamjob.store.effects import drive
    from streamjob.store.opening import References
    from streamjob.stored.locations import find_jobs

    try:
        roots = find_jobs(location, namespace, name)
    except StoreDenied as error:
        raise InvalidInput(error.what, error.fix) from error
    if len(roots) != 1:
        names = ", ".join(str(root.job) for root in roots)
        raise InvalidInput(f"there are several jobs: {names}", "say which one with --namespace and --name")
    (root,) = roots
    references = References(root.store)

    try:
        told = None if newest is None else normalise(newest, root.store.uri)
        plan = drive(root.store, plan_repair(root.job, told), find=references.find)
        if not as_json:
            _show(plan)
        if yes:
            drive(root.store, repair(plan, Owner(uuid.uuid4().hex), time.time()), find=references.find)
        done = yes or plan.empty
        if as_json:
            typer.echo(json.dumps({**_fields(plan), "done": done}, ensure_ascii=False))
        elif not plan.empty:
            typer.echo("done: the log is whole" if done else "nothing was changed: add --yes to do this")
        if not done and plan.problem is not None:
            raise typer.Exit(int(ExitCode.CANNOT_RESTORE))
    finally:
        references.close()
        root.store.close()


def _fields(plan: Plan) -> dict[str, object]:
    return {"job": str(plan.job), "problem": plan.problem, "steps": _steps(plan), "unnamed": list(plan.unnamed)}


def _show(plan: Plan) -> None:
    if plan.empty:
        typer.echo(f"the log of job {plan.job} is whole: there is nothing to repair")
        return
    if plan.problem is not None:
        typer.echo(f"the log of job {plan.job} is damaged: {plan.problem}")
    for step in _steps(plan):
        typer.echo(f"- {step}")
    if plan.fence is not None:
        for unnamed in plan.unnamed:
            typer.echo(
                f"{unnamed} can be read, and no readable record names it: if it was completed, add --newest {unnamed};"
                " otherwise the job deletes it when its next checkpoint completes"
            )


def _steps(plan: Plan) -> list[str]:
    """Return the steps of a repair in words."""
    from streamjob.snapshot import keys

    steps = [f"put {keys.log_record(seq)} back from its copy" for seq in sorted(plan.restored)]
    steps += [f"write {keys.record_copy(seq)} again from its record" for seq in sorted(plan.copies)]
    if plan.fence is None:
        return steps
    steps.append(
        f"claim the log as {keys.log_record(plan.fence.seq)}, in epoch {plan.fence.epoch}:"
        " a process that still runs the job ends as superseded"
    )
    steps += [f"name {record.kind} {record.id} again: {record.manifest}" for record in plan.adopted]
    if not plan.adopted:
        return [*steps, "drop the lost records: no completion is known, and the job starts without state"]
    last = plan.adopted[-1]
    steps.append(
        f"drop the lost records: the job continues from {last.kind} {last.id}, and publishes later output again; the "
        f"next checkpoint has an id above {plan.fence.last_id}"
    )
    return steps
