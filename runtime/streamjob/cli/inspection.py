"""`streamjob snapshots inspect`: shows stores and channels from the manifest, and rows with the help of the runtime."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from streamjob import runtime
from streamjob.cli import snapshot_tables
from streamjob.client import formatting
from streamjob.client.console import console_for
from streamjob.errors import InvalidInput
from streamjob.ids import OperatorUid
from streamjob.snapshot.manifest import Manifest
from streamjob.stored.reading import StoredSnapshot
from streamjob.stored.state_stores import StateOperator, read_state_operators
from streamjob.stored.state_tables import StateTable, TablesRequest, choose_channel, choose_operators

_ANY_WIDTH = 1_000_000


class NothingAsked(InvalidInput):
    """A query was given without an operator or a channel to read."""


def show_overview(snapshot: StoredSnapshot, *, as_json: bool) -> None:
    """Print the content of a snapshot that has a manifest, including its state stores.

    Raises:
        StateUnreadable: Spark's description of the state cannot be read.
        StoreError: the store failed.
    """
    operators = read_state_operators(snapshot)
    if as_json:
        shown = snapshot_tables.details(snapshot) | {"state": [_as_object(each) for each in operators]}
        typer.echo(json.dumps(shown, ensure_ascii=False))
        return
    console = console_for()
    snapshot_tables.print_details(snapshot, console)
    if operators:
        console.print(_stores(operators))
    _print_doubts(operators, console)


def show_rows(
    snapshot: StoredSnapshot,
    manifest: Manifest,
    *,
    operator: str | None,
    channel: str | None,
    sql: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """Print the rows of an operator's state or of a channel, or the result of a query over them.

    Raises:
        NothingAsked: there is a query, but neither operator nor channel.
        NoSuchState, NoSuchChannel: the snapshot has no such state or channel.
        MissingExtra: the state reader is not installed.
        StreamJobError: the state cannot be read.
    """
    if operator is None and channel is None:
        raise NothingAsked(
            "--sql needs an operator or a channel", "name an operator with --operator, or a channel with --channel"
        )
    chosen: tuple[StateOperator, ...] = ()
    if operator is not None:
        chosen = choose_operators(manifest, read_state_operators(snapshot), OperatorUid(operator))
    between = choose_channel(manifest, channel) if channel is not None else None
    runtime.require("`streamjob snapshots inspect --operator`")
    with _progress() as progress:
        request = TablesRequest(
            snapshot=snapshot, operators=chosen, channel=between, sql=sql, limit=limit, progress=progress
        )
        tables = list(runtime.read_tables(request))
    if as_json:
        for table in tables:
            for row in table.rows:
                shown = row if table.view is None else {"view": table.view, "row": row}
                typer.echo(json.dumps(shown, ensure_ascii=False))
        return
    console = console_for()
    for table in tables:
        print_rows(table, console)
    _print_doubts(chosen, console)


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    """Yield a callback that shows progress on standard error if it is a terminal, or None."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as shown:
        task = shown.add_task("")

        def note(what: str, done: int, total: int) -> None:
            shown.update(task, description=what, completed=done, total=total or None)

        yield note


def _as_object(operator: StateOperator) -> dict[str, Any]:
    return {
        "chain": operator.chain,
        "operatorId": operator.id,
        "operatorName": operator.name,
        "uids": list(operator.uids),
        "stores": [
            {"name": each.name, "partitions": each.partitions, "files": each.files, "bytes": each.size}
            for each in operator.stores
        ],
        "variables": dict(operator.variables),
        "timers": operator.timers,
    }


def _stores(operators: Sequence[StateOperator]) -> Table:
    table = snapshot_tables.table_of(
        ("state of", False),
        ("chain", False),
        ("id", True),
        ("Spark's operator", False),
        ("store", False),
        ("partitions", True),
        ("files", True),
        ("size", True),
    )
    for operator in operators:
        head = [" or ".join(operator.uids), operator.chain, str(operator.id), operator.name]
        for store in operator.stores:
            figures = [str(store.partitions), str(store.files), formatting.size(store.size)]
            table.add_row(*head, store.name, *figures)
            head = ["", "", "", ""]
        for name, kind in sorted(operator.variables.items()):
            table.add_row("", "", "", "", Text(f"{kind} {name}", style="dim"), "", "", "")
    return table


def _print_doubts(operators: Sequence[StateOperator], console: Console) -> None:
    doubtful = [operator for operator in operators if len(operator.uids) > 1]
    if doubtful:
        console.print(
            Text(
                "The snapshot does not tell whose state this is: "
                + "; ".join(f"{operator.label} is of {' or '.join(operator.uids)}" for operator in doubtful)
                + ". Spark counts from the chain's output towards its inputs.",
                style="yellow",
            ),
            soft_wrap=True,
        )


def print_rows(table: StateTable, console: Console) -> None:
    """Print the rows of a table; wide rows are printed as records."""
    title = table.title if table.view is None else f"{table.view}  {table.title}"
    console.print(Text(title, style="bold"), soft_wrap=True)
    if not table.rows:
        console.print("no rows")
        return
    shown = _in_columns(table)
    if console.measure(shown, options=console.options.update(max_width=_ANY_WIDTH)).maximum > console.width:
        _print_records(table, console)
    else:
        console.print(shown)
    if table.more:
        console.print(Text(f"{len(table.rows)} rows of more: --limit shows more of them, --sql counts", style="dim"))


def _in_columns(table: StateTable) -> Table:
    shown = snapshot_tables.table_of()
    for column in table.columns:
        numeric = all(isinstance(_at(row, column), int | float) for row in table.rows)
        shown.add_column(Text(".".join(column)), justify="right" if numeric else "left", no_wrap=True)
    for row in table.rows:
        shown.add_row(*(_cell(_at(row, column)) for column in table.columns))
    return shown


def _print_records(table: StateTable, console: Console) -> None:
    """Print each row as a record, with a line for each column."""
    for number, row in enumerate(table.rows, 1):
        shown = Table.grid(padding=(0, 2))
        shown.add_column(style="dim", no_wrap=True)
        shown.add_column(overflow="fold")
        for column in table.columns:
            shown.add_row(Text(".".join(column)), _cell(_at(row, column)))
        console.print(Text(f"row {number}", style="bold dim"))
        console.print(shown)


def _at(row: dict[str, Any], column: tuple[str, ...]) -> Any:
    value: Any = row
    for name in column:
        value = None if value is None else value.get(name)
    return value


def _cell(value: Any) -> Text:
    if value is None:
        return Text(formatting.ABSENT, style="dim")
    return Text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
