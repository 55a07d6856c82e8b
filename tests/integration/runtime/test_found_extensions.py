"""MLlib's functions are those that Spark would have registered, though they are registered when they are first used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BY_SPARK = "spark.sql.extensions.test.loadFromCp"
PROGRAM = """
import sys
from pathlib import Path
from pyspark.ml.functions import array_to_vector, vector_to_array
from pyspark.ml.linalg import Vectors
from pyspark.ml.stat import Summarizer
from streamjob_runtime.spark.gateway import java_of
from streamjob_runtime.spark.session import SessionSettings, start_session

spark = start_session(SessionSettings("functions", 1, 1, Path(sys.argv[1]), {sys.argv[2]: sys.argv[3]}))
registry = getattr(java_of(spark).org.apache.spark.sql.catalyst.analysis, "FunctionRegistry$")
print(*sorted(getattr(registry, "MODULE$").internal().listFunction().mkString(" ").split()))
rows = spark.createDataFrame([(Vectors.dense(1.0, 2.0), [3.0, 4.0])], ["v", "a"])
print(*rows.select(vector_to_array("v", "float32"), array_to_vector("a")).first())
print(*rows.select(Summarizer.mean(rows.v)).first())
spark.stop()
"""


def functions(directory: Path, loaded_by_spark: bool) -> list[str]:
    """Return the names of a session's internal functions, and the results of MLlib's."""
    directory.mkdir()
    command = [sys.executable, "-c", PROGRAM, str(directory), BY_SPARK, str(loaded_by_spark).lower()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert "registered function" not in done.stderr
    return done.stdout.splitlines()


def test_functions_of_mllib_are_those_that_spark_registers(tmp_path: Path) -> None:
    ours = functions(tmp_path / "ours", loaded_by_spark=False)

    assert ours[1:] == ["[1.0, 2.0] [3.0,4.0]", "[1.0,2.0]"]
    assert ours == functions(tmp_path / "sparks", loaded_by_spark=True)
