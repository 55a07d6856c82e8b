"""Writes the page of changed queries from the cells of its tests: `PYTHONPATH=. python docs/generate_migrations.py`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.integration.migrations.cells import ATTEMPTS, CELLS, KEPT, Outcome
from tests.integration.migrations.queries import BASES

TARGET = Path(__file__).parent / "reference" / "migrations.md"

_MARKS = {
    Outcome.RESTORED: "as it was",
    Outcome.CARRIED: "yes",
    Outcome.GAP: "gap",
    Outcome.LINE: "line",
    Outcome.QUERY: "query",
    Outcome.REFUSED: "no",
}

_HEAD = """# What becomes of state when a query changes

<!-- Written by docs/generate_migrations.py from the cells of tests/integration/migrations; change them there. -->

Each change is tried with each kind of query that it concerns, with state that is empty, half full, or about to close,
and with late rows after the change: {attempts} attempts. `make test` and `make test-long` make {kept} of them, and
`make test-thorough` the others. The job goes on from the snapshot of the former query. Its output is then compared with
the new query as a batch over all input.
[Change a job](../how-to/change-a-job.md#keep-the-state-of-a-changed-query) tells how.

- **yes** The state is changed to its new form, and the output is what the batch gives.
- **gap** The same, but what is new covers only the rows after the change in groups that were open, or keys were
  rounded before. `--strict` refuses it.
- **line** The same, with a line from you: `renames` on the operator.
- **query** The same, with a query from you under `migrate`, from the former state to the new one.
- **as it was** The state does not change, and the output is what the batch gives. A row of a join that was published
  with its partner is not published without one, although the new bounds exclude the partner.
- **no** The job does not start, and nothing is written.
"""


def table() -> Iterator[str]:
    """Yield the rows of the table: a line for each change, a column for each kind of query."""
    marks = {(cell.change, cell.operator): _MARKS[cell.today] for cell in CELLS}
    yield _row(("Change", *BASES))
    yield _row(["---"] * (len(BASES) + 1))
    for change in dict.fromkeys(cell.change for cell in CELLS):
        yield _row((change, *(marks.get((change, operator), "") for operator in BASES)))


def page() -> str:
    """Return the page."""
    return "\n".join((_HEAD.format(attempts=len(ATTEMPTS), kept=len(KEPT)), *table(), ""))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    TARGET.write_text(page())
