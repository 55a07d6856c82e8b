"""Records of files that do not fit the schema end the job, or are dropped and counted, or are dead letters."""

from __future__ import annotations

import gzip
import io
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pytest
from tests import jobs
from tests.integration.core import core
from tests.integration.runtime.embedded import Life, life_in, running
from tests.integration.runtime.graphs import job, output, rows_of
from tests.integration.runtime.power import Power
from tests.integration.runtime.stories import NEVER, killed_and_finished
from tests.jobs import sql

from streamjob.errors import ExitCode
from streamjob_runtime.job.bad_input_errors import FileUnreadable, HeaderDiffers, RecordNotDecoded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

GOOD = {"json": '{{"id": {0}, "amount": 1.5}}', "csv": "{0},1.5"}
BROKEN = {"json": '{{"id": {0}, "amount": "mü"}}', "csv": "{0},mü"}
WRONG = 'the field amount is "mü", which is no DOUBLE'


def write(directory: Path, form: str) -> None:
    (directory / "orders").mkdir()
    for file in range(6):
        lines = ["id,amount"] * (form == "csv") + [
            (BROKEN if n == 2 else GOOD)[form].format(10 * file + n) for n in range(4)
        ]
        hidden = directory / "orders" / f".{file}"
        hidden.write_text("\n".join(lines))
        hidden.rename(directory / "orders" / f"{file}.{form}")


def life_of(
    directory: Path,
    form: str,
    *letters: dict[str, Any],
    where: str = "",
    options: dict[str, str] | None = None,
    **fields: Any,
) -> Life:
    given = {**({"header": True} if form == "csv" else {}), **(options or {})}
    schema = "id INT, amount DOUBLE"
    source = jobs.files("orders", directory / "orders", schema, form, options=given, bounded=True, **fields)
    # The query reads one column, and another one is broken.
    rows = sql("rows", ["orders"], f"SELECT id FROM orders {where}")
    names = ["rows", *(each["name"] for each in letters)]
    spec = job(directory, [source], [rows, *letters], names, checkpointing={"interval": "1h"})
    return life_in(directory, spec, restarts=NEVER)


GOOD_IDS = Counter((10 * file + n,) for file in range(6) for n in (0, 1, 3))


@pytest.mark.parametrize("form", core(["csv", "json"], kept=["csv"]))
def test_a_job_ends_at_a_broken_record_or_drops_and_counts_such_records(
    spark: SparkSession, tmp_path: Path, form: str
) -> None:
    write(tmp_path, form)
    with running(spark, life_of(tmp_path, form)) as ends, pytest.raises(RecordNotDecoded) as error:
        ends.wait()
    with running(spark, life_of(tmp_path, form, onError="drop")) as drops:
        assert drops.wait() is ExitCode.OK
        (dropped,) = drops.records_not_decoded()

    text = BROKEN[form].format(2)
    assert f"0.{form} is not {form} with the columns id INT, amount DOUBLE: {WRONG}: {text}" in str(error.value)
    assert "--set sources.orders.onError=drop" in str(error.value.fix)
    assert rows_of(output(tmp_path, "rows")) == GOOD_IDS
    assert dropped == 6


@pytest.mark.parametrize("mode", [{}, {"mode": "PERMISSIVE"}], ids=["ours", "Spark's"])
def test_a_job_ends_at_a_header_with_other_columns_whatever_it_does_with_broken_records(
    spark: SparkSession, tmp_path: Path, mode: dict[str, str]
) -> None:
    write(tmp_path, "csv")
    (tmp_path / "orders" / "3.csv").write_text("amount,id\n1.5,2\n")
    fields = {} if mode else {"onError": "drop"}

    life = life_of(tmp_path, "csv", options=mode, **fields)
    with running(spark, life) as ends, pytest.raises(HeaderDiffers) as error:
        ends.wait()

    assert all(each in str(error.value) for each in ("3.csv", "amount", "id"))
    assert "enforceSchema: true" in str(error.value.fix)


def avro() -> bytes:
    """Return a file with many blocks."""
    fields = [{"name": "id", "type": "int"}, {"name": "amount", "type": "double"}]
    file, rows = io.BytesIO(), ({"id": each, "amount": 1.5} for each in range(1_000))
    fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, rows, sync_interval=1_000)
    return file.getvalue()


UNREADABLE = {
    "json": ("0.json.gz", gzip.compress(b'{"id": 1}\n' * 10_000)[:-20]),
    "json by zstd": ("0.json.zst", pa.compress(b'{"id": 1}\n' * 10_000, "zstd", asbytes=True)[:-20]),
    "csv": ("0.csv.gz", b"id,amount\n1,2\n"),
    "parquet": ("0.parquet", b"PAR1 and no footer"),
    "orc": ("0.orc", b"no ORC"),
    "avro": ("0.avro", b"no Avro"),
    "avro in its first block": ("0.avro", avro()[:1_000]),
    "avro in its last block": ("0.avro", avro()[:-20]),
}


@pytest.mark.parametrize("damage", UNREADABLE)
def test_a_job_ends_at_a_file_that_nothing_can_read_and_names_it(
    spark: SparkSession, tmp_path: Path, damage: str
) -> None:
    name, content = UNREADABLE[damage]
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / name).write_bytes(content)

    with running(spark, life_of(tmp_path, damage.split()[0])) as ends, pytest.raises(FileUnreadable) as error:
        ends.wait()

    assert f"{tmp_path}/orders/{name} cannot be read" in str(error.value)
    assert "move it away" in str(error.value.fix)


def test_a_filter_behind_does_not_hide_a_broken_record(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "json")

    life = life_of(tmp_path, "json", where="WHERE amount > 1", onError="fail")
    with running(spark, life) as ends, pytest.raises(RecordNotDecoded):
        ends.wait()


@pytest.mark.parametrize("form", core(["csv", "json"], "json"))
def test_dead_letters_have_the_text_and_the_file_and_each_record_is_in_one_output_across_a_kill(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    write(tmp_path, form)
    query = (
        "SELECT CAST(value AS STRING) AS text, substring_index(file, '/', -1) AS file, error FROM orders_dead_letters"
    )
    letters = sql("letters", ["orders_dead_letters"], query)
    life = life_of(tmp_path, form, letters, onError="deadLetter", columns=["*", "_metadata.file_name AS file"])

    killed_and_finished(spark, life, Power(monkeypatch))

    error = f"the record is not {form} with the columns id INT, amount DOUBLE: {WRONG}"
    assert rows_of(output(tmp_path, "rows")) == GOOD_IDS
    assert rows_of(output(tmp_path, "letters")) == Counter(
        (BROKEN[form].format(10 * file + 2), f"{file}.{form}", error) for file in range(6)
    )
