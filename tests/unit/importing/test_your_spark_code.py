"""Each row of `docs/your-spark-code.md` is what `streamjob import` makes of a program with the left side in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.unit.importing.programs import HEAD, READ

from streamjob_import.running import record
from streamjob_import.writing import write_job

PAGE = Path(__file__).parents[3] / "docs" / "your-spark-code.md"
ROWS = dict(re.findall(r"^\| (.+?) \| (.+?) \| .*\|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
OUTSIDE = {"`spark-submit program.py`", "a directory with `_spark_metadata`"}
"""What is not in a program."""
START = '.writeStream.format("parquet").option("path", "out").option("checkpointLocation", "ck")'


def program(code: str) -> str:
    """Return a program with some code, which is a source, a step, a part of a writer, or a statement."""
    named = "def send(row): pass\ndef write(batch, batch_id): pass\ndef plus(n: int) -> int: return n + 1\n"
    named += "class Listener: pass\nkey = 'a-secret'\n"
    rows, session, step, writer, after = READ, "", "", START, ""
    if code.startswith("spark.readStream"):
        rows = f"s = 'k STRING, n INT'\nrows = {code}{'' if '.json(' in code or '.table(' in code else '.load()'}\n"
    elif code.startswith(("F.from_json", "from_avro")):
        step = f".select({code}'k', 'a INT').alias('parsed'))"
        session = "from pyspark.sql.avro.functions import from_avro\n"
    elif code.startswith("spark.read."):
        step = f".join({code}, 'k')"
    elif code.startswith(("spark.udf", "spark.conf")):
        session, step = f"{code}\n", ".selectExpr('plus(n) AS n')" if "plus" in code else ""
    elif code.startswith(".config"):
        session = f"SparkSession.builder{code}.getOrCreate()\n"
    elif code.startswith("def parse"):
        session, step = f"{code}\n    return df.where('n > 1')\n", ".transform(parse)"
    elif code.startswith("@"):
        session, step = f"{code}\ndef plus(n): return n + 1\n", ".select(plus('n'))"
    elif code.startswith("createOrReplace"):
        step, writer = "", f"\nrows.{code}\nspark.sql('SELECT k FROM v'){START}"
    elif code.startswith((".withWatermark", ".cache")):
        step = code
    elif code.startswith(".outputMode"):
        step, writer = ".groupBy('k').count()", START + code
    elif code.startswith("."):
        writer = START + code if ".start(" not in code and ".toTable(" not in code else f".writeStream{code}"
    else:
        after = code
    start = "" if ".start(" in writer or ".toTable(" in writer else ".start()"
    return f"{HEAD}{named}{session}{rows}\nquery = rows{step}{writer}{start}\n{after}\n"


def test_the_page_has_rows() -> None:
    assert len(ROWS) > 30
    assert ROWS.keys() >= OUTSIDE


@pytest.mark.parametrize("left", [each for each in ROWS if each.startswith("`") and each not in OUTSIDE])
def test_a_row_is_what_import_makes(left: str, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(program(left.strip("`")), encoding="utf-8")
    job = write_job(record(file))
    named = re.findall(r"`([^`]+)`", ROWS[left])
    for text in named or [ROWS[left]]:
        assert (text in job) if text != "nothing" else (left.strip("`.()") not in job)
    assert "a-secret" not in job
