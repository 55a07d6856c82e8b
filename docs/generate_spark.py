"""Lists the internals of Spark that are used: `python docs/generate_spark.py`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RUNTIME = ROOT / "runtime" / "streamjob_runtime"
TARGET = Path(__file__).parent / "new-spark-version.md"

_PUBLIC = re.compile(
    r"org\.apache\.spark\.(api\.java|sql\.(types|streaming|connector|sources|vectorized|util|api)"
    r"|sql\.(Column|Dataset|Encoder|Encoders|Row|RowFactory|SparkSession|SparkSessionExtensions\w*|AnalysisException)\b"
    r"|(SparkConf|SparkContext|SparkEnv|SparkException|TaskContext)\b)"
)
"""What Spark's documentation promises to keep, or to change with notice."""
_NAME = re.compile(r"\borg\.apache\.spark(?:\.[a-z]\w*)*\.[A-Z]\w*")

_HEAD = """# A new version of Spark

<!-- Written by docs/generate_spark.py from the sources; change it there. -->

streamjob pins one version of Spark, because exact checkpoints need more than Spark's public interfaces. This page lists
all that may break with another version, and the steps of an upgrade.

## Steps

1. Set the version of `pyspark` in `pyspark==` of `pyproject.toml`, run `make lock`, and remove `.venv`.
2. `python -m streamjob_runtime.spark.jvm.build`. The compiler names each class and method that changed. Compare the
   others below by Spark's history: a rule or a store may compile and do something else.
3. `runtime/streamjob_runtime/spark/gateway.py` is the only module that uses private names of PySpark.
   `runtime/streamjob_runtime/spark/checkpoint_dir/` reads and writes the files of Spark's checkpoints; compare the
   formats of offsets, commits, metadata and state.
4. Compare Spark's settings in `runtime/streamjob/job/model/spark_settings.py` and, those that a job may change, in
   `runtime/streamjob_runtime/spark/session.py`: new defaults of state stores and of the formats of checkpoints change
   what a snapshot holds.
5. `make test`, `make test-long`, `make e2e`; then start jobs of the old release from their snapshots.
6. `make bench`: compare with the figures of the version before.

**Tried with 4.2.1**, the newest version besides 4.3.0: of the Java classes, all but `JoinCounts` compile. It overrides
a method that returns a `RocksDBIterator`, a class that 4.2.1 does not have. The tests were not run with it.
"""


def uses() -> dict[str, dict[str, set[str]]]:
    """Return the files that use each class of Spark which is not public, by package."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for file in sorted([*RUNTIME.rglob("*.java"), *RUNTIME.rglob("*.py")]):
        for name in _NAME.findall(file.read_text(encoding="utf-8")):
            if not _PUBLIC.match(name):
                package, _, short = name.rpartition(".")
                found[package][short].add(file.stem)
    return found


def table(found: dict[str, dict[str, set[str]]]) -> Iterator[str]:
    """Yield the rows of the classes."""
    yield "| package, class | used by |"
    yield "|---|---|"
    for package, classes in sorted(found.items()):
        yield f"| **{package.removeprefix('org.apache.spark.')}** | |"
        for name, files in sorted(classes.items()):
            yield f"| {name} | {', '.join(sorted(files))} |"


def render() -> str:
    """Return the document."""
    found = uses()
    count = sum(map(len, found.values()))
    files = len({file for classes in found.values() for each in classes.values() for file in each})
    lead = f"## Classes without a promise\n\n{files} files use {count} classes that Spark may change without notice.\n"
    return "\n".join([_HEAD, lead, *table(found), ""])


if __name__ == "__main__":
    TARGET.write_text(render(), encoding="utf-8")
