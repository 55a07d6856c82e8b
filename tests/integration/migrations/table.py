"""The table of what becomes of state when a query changes, for the docs."""

from __future__ import annotations

from tests.integration.migrations.cells import CELLS, Outcome
from tests.integration.migrations.queries import BASES

MARKS = {
    Outcome.RESTORED: "as it was",
    Outcome.CARRIED: "carried",
    Outcome.GAP: "gap",
    Outcome.LINE: "line",
    Outcome.REFUSED: "no",
}


def table() -> str:
    """Return it in Markdown: a line for each change, a column for each kind of query."""
    outcomes = {(cell.change, cell.operator): MARKS[cell.today] for cell in CELLS}
    changes = dict.fromkeys(cell.change for cell in CELLS)
    lines = [("Change", *BASES), ("---", *("---" for _ in BASES))]
    lines += [(change, *(outcomes.get((change, operator), "") for operator in BASES)) for change in changes]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
