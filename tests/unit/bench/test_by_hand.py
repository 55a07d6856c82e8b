"""The benchmark against plain Spark by hand: the sides are the same, and so are their inputs."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from bench.batches import Batch
from bench.by_hand.__main__ import Content, content_of, start_command, warm
from bench.by_hand.cases import BATCH, CASES, WARM_UP, Place
from bench.by_hand.data import FORMS
from bench.processes import Used
from pyarrow import parquet

from streamjob.job.loading.load import load_job


def test_the_first_batches_and_what_follows_the_last_full_one_do_not_count() -> None:
    case = CASES["json"]
    ends = [100.0 + 2 * number for number in range(case.batches + 2)]
    samples = tuple((90.0 + second, 3.0 * second) for second in range(60))
    used = Used(wall=60, cpu=180, load_before=0.5, samples=samples)

    run = warm("json", "streamjob", 0, case, 5, used, [Batch(2000, end) for end in ends])

    assert run.records == (case.batches - WARM_UP) * BATCH
    assert run.wall == pytest.approx(2 * (case.batches - WARM_UP))
    assert run.cpu == pytest.approx(3 * run.wall)
    assert run.whole_cpu == 180


@pytest.mark.parametrize("case", CASES)
def test_each_side_is_a_valid_job_or_a_query_of_the_other_process(case: str, tmp_path: Path) -> None:
    place = Place(kafka="broker:9092", topic="orders", files=str(tmp_path), dead="dead")
    for side in CASES[case].sides.values():
        words = start_command(side, place, tmp_path)
        if side.job is None:
            from bench.by_hand.plain_side import QUERIES

            assert words[2] == "bench.by_hand.plain_side"
            assert words[3] in QUERIES
        else:
            assert load_job(tmp_path / "job.yaml").spec.name == "by-hand"
        assert side.base is None or side.base in CASES[case].sides


def test_one_value_in_a_hundred_is_cut_off() -> None:
    made = FORMS["bad"]

    def is_json(value: bytes) -> bool:
        try:
            json.loads(value)
        except ValueError:
            return False
        return True

    assert sum(not is_json(made(number)) for number in range(1000)) == 10


def test_the_content_of_rows_is_their_number_and_sums(tmp_path: Path) -> None:
    table = pa.table({"id": [1, 2, 3], "amount": [0.5, 0.25, 0.01]})
    parquet.write_table(table, tmp_path / "one.parquet")

    assert content_of(tmp_path) == Content(3, (("id", 600), ("amount", 76)))
