"""Creates the archive of loaded classes: `python -m streamjob_runtime.spark.warm_up`, once after an installation.

It runs a small but typical job: two sources, a join, a window, an exactly-once sink.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from streamjob_runtime.spark.class_data import TRAIN_VARIABLE, archive, can_archive
from streamjob_runtime.spark.process.java import find_java

_JOB = """
name: warm-up
parallelism: 1
checkpointing: {interval: 1s}
sources:
- {name: a, format: csv, schema: "k INT, t TIMESTAMP", options: {path: a, header: true}, bounded: true,
   watermark: {column: t, delay: 1h}}
- {name: b, format: json, schema: "j INT, u TIMESTAMP", options: {path: b}, bounded: true,
   watermark: {column: u, delay: 1h}}
operators:
- name: joined
  inputs: [a, b]
  sql: SELECT k, t FROM a LEFT JOIN b ON k = j AND u <= t AND u > t - INTERVAL 1 HOUR
- name: counted
  inputs: [joined]
  sql: SELECT window.start AS hour, count(*) AS n FROM joined GROUP BY window(t, '1 hour')
sinks:
- {name: out, input: counted, format: parquet, options: {path: out}}
"""


def main() -> int:
    """Create the archive if it does not exist; return the exit code."""
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        java = find_java(os.environ, directory / "java")
        target = archive(java, os.environ)
        if target.exists() or not can_archive(java):
            return 0
        (directory / "job.yaml").write_text(_JOB)
        for name in "ab":
            (directory / name).mkdir()
        (directory / "a" / "1.csv").write_text("k,t\n1,2024-01-01 00:30:00\n2,2024-01-01 01:30:00\n")
        (directory / "b" / "1.json").write_text('{"j": 1, "u": "2024-01-01 00:00:00"}\n')
        run = "from streamjob.cli.main import main; main()"
        command = [sys.executable, "-c", run, "run", str(directory / "job.yaml"), "--quiet"]
        print("Making the archive of Spark's classes, so that jobs start faster …", file=sys.stderr)  # noqa: T201
        done = subprocess.run(command, env={**os.environ, TRAIN_VARIABLE: "1"}, check=False)
        if done.returncode != 0 or not target.exists():
            target.unlink(missing_ok=True)
            print("It could not be made; jobs run without it.", file=sys.stderr)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
