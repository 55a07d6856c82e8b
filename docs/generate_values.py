"""Writes the page of types and values from the tables of its tests: `PYTHONPATH=. python docs/generate_values.py`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.integration.matrix.refused import ONLY, REFUSED_NAMES, REFUSED_TYPES, REFUSED_VALUES
from tests.integration.matrix.targets import TARGETS
from tests.integration.matrix.values import NAMES, NESTED, VALUES, labelled

TARGET = Path(__file__).parent / "reference" / "values.md"

_HEAD = """# Types and values of sinks

<!-- Written by docs/generate_values.py from the tables of tests/integration/matrix; change them there. -->

Each sink gets each type of Spark at its edges. Then its readers find the same value, or the sink refuses it before a
row is staged, by an error that names the column. A test tries all {cells} combinations of a sink, a value and a reader.

- **=** Readers find every value that was tried.
- **no** The sink refuses the type when the job starts. Cast the column to another type.
- **not: …** The sink refuses these values when it stages their batch.

Intervals are numbers in Parquet and Avro for readers other than Spark: of microseconds, or of months.
"""


def cells() -> int:
    """Return the number of sinks × values × readers, refused ones included."""
    values = sum(len(labelled(kind)) for kind in VALUES)
    return sum(values * len(target.readers) for target in TARGETS.values())


def table() -> Iterator[str]:
    """Yield the rows of the table of types and sinks."""
    yield from _rows(("Type", *TARGETS))
    for kind in VALUES:
        yield _row((_code(_name(kind)), *(_cell(target, kind) for target in TARGETS)))


def _cell(target: str, kind: str) -> str:
    if kind in REFUSED_TYPES.get(target, {}):
        return "no"
    refused = REFUSED_VALUES.get(target, {}).get(kind, {})
    only = ONLY.get((target, kind))
    return ("not: " + ", ".join(refused) if refused else "=") + (f" ({', '.join(only)})" if only else "")


def _name(kind: str) -> str:
    return kind if kind in NESTED else kind.upper()


def values() -> Iterator[str]:
    """Yield the rows of the table of values."""
    yield from _rows(("Type", "Values, beside NULL"))
    for kind, of in VALUES.items():
        yield _row((_code(_name(kind)), ", ".join(of)))


def readers() -> Iterator[str]:
    """Yield the rows of the table of readers and names."""
    yield from _rows(("Sink", "Readers", "Names of columns that it refuses"))
    for name, target in TARGETS.items():
        refused = ", ".join(_code(each) for each in REFUSED_NAMES.get(name, {}))
        yield _row((name, ", ".join(target.readers), refused))


def render() -> str:
    """Return the page."""
    lines = [
        _HEAD.format(cells=f"{cells():,}"),
        *table(),
        "\nA reader in parentheses is the only one that knows the type.\n\n## The values\n",
        *values(),
        "\n## Readers, and names of columns\n",
        f"Each sink gets columns with these names: {', '.join(map(_code, NAMES))}.",
        "Every sink refuses two names that differ in case only.\n",
        *readers(),
    ]
    return "\n".join(lines) + "\n"


def _code(name: str) -> str:
    shown = name if len(set(name)) > 1 or len(name) <= 20 else f"{name[:4]}… ({len(name)} characters)"
    shown = shown.replace("\n", "↵").replace("\t", "⇥").replace("|", "\\|")
    return f"`` {shown} ``" if "`" in shown else f"`{shown}`"


def _rows(heads: Sequence[str]) -> Iterator[str]:
    yield _row(heads)
    yield "|" + "---|" * len(heads)


def _row(texts: Sequence[str]) -> str:
    return "| " + " | ".join(texts) + " |"


if __name__ == "__main__":
    TARGET.write_text(render(), encoding="utf-8")
