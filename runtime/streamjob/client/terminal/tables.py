"""Tables whose columns are the figures that a view declares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from streamjob.client import formatting
from streamjob.figures import Detail, Figure, Unit, figures_of

_NARROW, _ONE_COLUMN, _WIDEST = 76, 110, 220
"""Widths of panels, in columns: below the first, less is shown; the second is the most for one column of sections."""
_TWO_COLUMNS = 172
_GAP = 4
_LONGEST_NAME = 24
_BAR = 6


@dataclass(frozen=True, slots=True)
class Canvas:
    """The available space, in columns and lines.

    Args:
        whole: whether everything is shown, whatever the space.
    """

    width: int
    height: int
    whole: bool = False

    @property
    def detail(self) -> Detail:
        """What there is room for."""
        return Detail.STATUS if self.whole else Detail.NARROW if self.width < _NARROW else Detail.PANEL

    @property
    def narrow(self) -> bool:
        """Whether the less important columns are omitted."""
        return self.detail is Detail.NARROW

    @property
    def panel_width(self) -> int:
        """Width of the panel in columns, including its frame."""
        return self.width if self.whole else min(self.width, _WIDEST if self.two_columns else _ONE_COLUMN)

    @property
    def two_columns(self) -> bool:
        """Whether there is room for the sections side by side."""
        return self.width >= _TWO_COLUMNS and not self.whole

    @property
    def wide(self) -> bool:
        """Whether a section has all the room that one can have."""
        return self.panel_width >= _ONE_COLUMN

    @property
    def column(self) -> Canvas:
        """The space of a column of sections; its width includes a frame."""
        return Canvas((self.panel_width - 4 - _GAP) // 2 + 4, self.height) if self.two_columns else self


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Args:
        cell: returns the cell of an object; empty if there is nothing to show.
        detail: the first view that has it.
        right: whether it is aligned on the right.
        wraps: whether it has several lines where there is little room.
    """

    heading: str
    cell: Callable[[Any], Text | str]
    detail: Detail = Detail.NARROW
    right: bool = False
    wraps: bool = False


def side_by_side(left: RenderableType, right: RenderableType) -> Table:
    """Return two columns of equal width."""
    table = Table.grid(padding=(0, _GAP, 0, 0), expand=True, pad_edge=False)
    table.add_column(ratio=1)
    table.add_column(ratio=1)
    table.add_row(left, right)
    return table


def grid(*, header: bool = False) -> Table:
    """Return a table whose first column has names: of the figures, or below a header, of objects."""
    grid = Table.grid(padding=(0, 2), expand=False)
    # The only column that shrinks if there is little room; a name without spaces is cut, not wrapped.
    grid.add_column(style="" if header else "dim", no_wrap=not header, overflow="ellipsis", max_width=_LONGEST_NAME)
    return grid


def figures(
    model: type, canvas: Canvas, now: float, *, of: Callable[[Any], object] = lambda row: row, without: str = ""
) -> list[Column]:
    """Return the columns of the figures that a view declares.

    Args:
        now: seconds since 1970.
        of: returns the view of a row.
        without: a figure to omit.
    """

    def column(name: str, figure: Figure) -> Column:
        return Column(
            figure.heading,
            lambda row: cell(figure, getattr(of(row), name), canvas, now),
            figure.detail,
            right=figure.unit not in (Unit.TEXT, Unit.TIME_MS, Unit.SHARE),
            wraps=figure.unit is Unit.TEXT,
        )

    named = [(name, each) for name, each in figures_of(model) if each.heading and not each.by]
    return [column(name, figure) for name, figure in named if name != without]


def table(
    rows: Sequence[Any],
    columns: Sequence[Column],
    canvas: Canvas,
    *,
    most: int | None = None,
    rest: Callable[[Sequence[Any]], str] = lambda omitted: "",
) -> Table:
    """Return a table with a row for each object; columns without any value are omitted.

    Args:
        columns: the columns, the first with the names of the objects.
        most: maximum number of rows; a last one gives the number of omitted objects.
        rest: returns what else that row says of them.
    """
    shown = rows if most is None or len(rows) <= most else rows[: max(0, most - 1)]
    cells = {each: [each.cell(row) for row in shown] for each in columns if each.detail <= canvas.detail}
    kept = {
        each: found
        for each, found in cells.items()
        if any(str(value) not in ("", formatting.ABSENT) for value in found)
    }
    drawn = grid(header=True)
    for column in list(kept)[1:]:
        drawn.add_column(no_wrap=not column.wraps, overflow="fold", justify="right" if column.right else "left")
    drawn.add_row(*(Text(column.heading, style="dim") for column in kept))
    for row in zip(*kept.values(), strict=True):
        drawn.add_row(*(Text(value) if isinstance(value, str) else value for value in row))
    if omitted := rows[len(shown) :]:
        drawn.add_row(Text(f"and {len(omitted)} more{rest(omitted)}", style="dim"))
    return drawn


def cell(figure: Figure, value: Any, canvas: Canvas, now: float) -> Text:
    """Return a figure for people."""
    if value is None or value == figure.unless or (figure.rare and not value):
        return Text("" if figure.rare else formatting.ABSENT)
    stands_out = "yellow" if figure.alarm is not None and value >= figure.alarm else ""
    match figure.unit:
        case Unit.TEXT:
            return Text(value)
        case Unit.RATE:
            return Text(f"{formatting.count(value)}/s", style="cyan" if value >= 0.5 else "dim")
        case Unit.BYTES:
            return Text(formatting.size(value))
        case Unit.SECONDS | Unit.MS:
            return Text(formatting.duration(value / 1000 if figure.unit is Unit.MS else value))
        case Unit.SHARE:
            text = Text(formatting.percent(value).rjust(5), style=stands_out or ("" if value >= 0.1 else "dim"))
            return text if canvas.narrow else text.append(f" {formatting.bar(value, _BAR)}")
        case Unit.TIME_MS:
            return Text(formatting.event_time(value))
        case Unit.AGE | Unit.TIME:
            return Text(formatting.ago(now - value))
        case Unit.NUMBER:
            return Text(formatting.count(value) if value >= 0 else formatting.ABSENT, style=stands_out)
