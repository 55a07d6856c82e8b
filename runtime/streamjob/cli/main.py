"""The command `streamjob`: loads sub-commands on demand, and turns errors into messages and exit codes."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from importlib import import_module, metadata
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from streamjob.cli import control
from streamjob.errors import ExitCode, InvalidInput, StreamJobError
from streamjob.extras import from_extra

ENTRY_POINTS = "streamjob.commands"


@dataclass(frozen=True, slots=True)
class Lazy:
    """A command that is imported on demand.

    `place` is the `module:name` of a function with typer annotations or of a typer app. None means the entry point with
    the command's name, which needs the extra `extra`.
    """

    help: str
    place: str | None = None
    extra: str | None = None


LAZY: dict[str, Lazy] = {
    "init": Lazy("Write a first job that runs, with a little data.", "streamjob.cli.init:init_command"),
    "run": Lazy("Run a job on an embedded Spark, from its latest checkpoint.", extra="runtime"),
    "executor": Lazy(
        "Run an executor for a job whose driver runs elsewhere.",
        "streamjob.runtime:executor",
        extra="runtime",
    ),
    "validate": Lazy("Check a job file, and report all mistakes.", "streamjob.cli.validate:validate_command"),
    "plan": Lazy("Show the chains of a job.", "streamjob.cli.plan:plan_command"),
    "convert": Lazy("Write a job as YAML.", "streamjob.cli.convert:convert_command"),
    "import": Lazy("Make a job of a PySpark program.", extra="runtime"),
    "test": Lazy("Run the tests of a job file.", "streamjob.cli.test:file_tests_command"),
    "preview": Lazy(
        "Show what an operator returns for a sample of its sources.", "streamjob.cli.preview:preview_command"
    ),
    "profile": Lazy(
        "Record where a running job spends its CPU time, as a flame graph.", "streamjob.cli.profile:profile_command"
    ),
    "check": Lazy("Show what a start from a snapshot would restore and refuse.", "streamjob.cli.check:check_command"),
    "migrate": Lazy(
        "Write a savepoint with the state that a changed job needs.",
        "streamjob.cli.migrate:migrate_command",
    ),
    "advise": Lazy("Advise on the number of task slots of a job.", "streamjob.cli.advise:advise_command"),
    "commits": Lazy(
        "Show the commits of a job's newest checkpoint, and give up one that fails.",
        "streamjob.cli.commits:commits_command",
    ),
    "adopt": Lazy("Let jobs write to the output directory of a plain query.", "streamjob.cli.adopt:adopt_command"),
    "log": Lazy("Repair the log of a job.", "streamjob.cli.log:log_app"),
    "snapshots": Lazy(
        "List, show, verify, inspect and delete stored snapshots.", "streamjob.cli.snapshots:snapshots_app"
    ),
}


class Commands(TyperGroup):
    """Loads a command when it is called, and reports an error for users as one readable message."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Load the command that `args` begin with, unless it is loaded."""
        if args and (lazy := LAZY.get(args[0])) is not None:
            self.add_command(load(args[0], lazy), args[0])
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; turn an error for users into a message and an exit code."""
        try:
            return super().invoke(ctx)
        except StreamJobError as error:
            typer.secho("error: ", fg="red", bold=True, nl=False, err=True)
            typer.echo(str(error), err=True)
            raise typer.Exit(int(error.exit_code)) from None


def load(name: str, lazy: Lazy) -> Any:
    """Return the command with the given name.

    Raises:
        MissingExtra: it needs packages that are not installed.
    """
    with from_extra(f"`streamjob {name}`", lazy.extra) if lazy.extra is not None else nullcontext():
        found = _import(lazy.place) if lazy.place is not None else _entry_point(name)
    if isinstance(found, typer.Typer):
        found.rich_markup_mode = None
        group = get_group(found)
        group.name = name
        return group
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    single.command(name)(found)
    return get_command(single)


def _import(place: str) -> Any:
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)


def _entry_point(name: str) -> Any:
    found = metadata.entry_points(group=ENTRY_POINTS, name=name)
    if not found:
        raise InvalidInput(
            f"the command {name!r} is not installed: no entry point {name!r} in the group {ENTRY_POINTS!r}",
            "Install streamjob again, with pip.",
        )
    return next(iter(found)).load()


def _placeholder() -> None:
    """Return a command that represents an unloaded one in the help."""


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"streamjob {metadata.version('streamjob')}")
        raise typer.Exit


app = typer.Typer(
    name="streamjob",
    cls=Commands,
    help="Checkpointed streaming jobs on Apache Spark: run, watch and control jobs, and manage their snapshots.",
    epilog="Exit codes: 0 done, 2 invalid input, 3 cannot restore, 4 superseded by another owner, 5 failed, "
    "6 interrupted.",
    no_args_is_help=True,
    # Rich is slow to import; plain help takes a third of the time.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _streamjob(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    pass


def _register(name: str, function: Callable[..., None], **options: Any) -> None:
    app.command(name, **options)(function)


for _name in (
    "init",
    "run",
    "executor",
    "validate",
    "plan",
    "convert",
    "import",
    "test",
    "preview",
    "check",
    "migrate",
):
    _register(_name, _placeholder, help=LAZY[_name].help)
_register("status", control.status)
_register("ui", control.ui)
_register("checkpoint", control.checkpoint)
_register("savepoint", control.savepoint)
_register("profile", _placeholder, help=LAZY["profile"].help)
_register("stop", control.stop, cls=control.StopCommand)
_register("advise", _placeholder, help=LAZY["advise"].help)
_register("snapshots", _placeholder, help=LAZY["snapshots"].help)
_register("commits", _placeholder, help=LAZY["commits"].help)
_register("adopt", _placeholder, help=LAZY["adopt"].help)
_register("log", _placeholder, help=LAZY["log"].help)


def main() -> None:
    """Run the command line, and exit with its code."""
    try:
        app()
    except Exception:
        traceback.print_exc()
        sys.exit(int(ExitCode.FAILED))
