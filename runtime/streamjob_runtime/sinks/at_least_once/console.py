"""A sink that prints the first rows of each batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from rich.table import Table
from rich.text import Text

from streamjob.client.console import console_for
from streamjob.ids import BatchId
from streamjob.sink import SinkContext, Staged
from streamjob_runtime.sinks.at_least_once.batch import AtLeastOnceSink
from streamjob_runtime.sinks.errors import UnusableSink
from streamjob_runtime.sinks.rows.counting import counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_ROW_IN_PARTITION = (1 << 33) - 1
"""The low bits of Spark's `monotonically_increasing_id`."""


class ConsoleSink(AtLeastOnceSink):
    """Prints up to `numRows` rows of each batch (default 20), cut at 20 characters unless `truncate` changes that.

    Args:
        name: the sink's name, printed above the rows.
        output: the output; None for standard output.
    """

    def __init__(self, name: str, output: TextIO | None = None) -> None:
        self._name = name
        self._output = output

    def open(self, context: SinkContext) -> None:
        """Parse the options.

        Raises:
            UnusableSink: `numRows` or `truncate` has the wrong type.
        """
        super().open(context)
        self._rows = _number(self._name, "numRows", context.options.get("numRows", "20"))
        truncate = context.options.get("truncate", "true").lower()
        widths = {"true": 20, "false": 0}
        self._width = widths[truncate] if truncate in widths else _number(self._name, "truncate", truncate)

    def preview(self, context: SinkContext, schema: StructType | None) -> None:
        """Parse the options. Raises the errors of `open`."""
        self.open(context)

    def stage(self, batch: DataFrame, batch_id: BatchId) -> Staged:
        """Print the batch's first rows; the whole batch is computed, in one Spark action."""
        from pyspark.sql import functions as f

        # A limit would leave partitions uncomputed, and thus their state unchanged.
        in_partition = f.monotonically_increasing_id().bitwiseAND(f.lit(_ROW_IN_PARTITION))
        observed, rows = counted(batch)
        shown = observed.where(in_partition < self._rows).collect()[: self._rows]
        total = rows() or 0
        table = Table(title=f"{self._name}, batch {batch_id}", title_justify="left", title_style="bold")
        for column in batch.columns:
            table.add_column(Text(column), overflow="fold")
        for row in shown:
            table.add_row(*(Text(self._cut(value)) for value in row))
        console = console_for(self._output)
        console.print(table)
        if total > len(shown):
            console.print(f"{len(shown)} of {total} rows", style="dim")
        return Staged(None, total)

    def _cut(self, value: object) -> str:
        text = "NULL" if value is None else str(value)
        return text if not self._width or len(text) <= self._width else text[: max(self._width - 1, 0)] + "…"


def _number(name: str, option: str, text: str) -> int:
    if not text.isdecimal():
        raise UnusableSink(f"sink {name}: option {option} is {text!r}", "give a number of 0 or more")
    return int(text)
