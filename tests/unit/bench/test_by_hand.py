"""The benchmark against plain Spark by hand: the sides are the same, and so are their inputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench.batches import Batch
from bench.by_hand.__main__ import Content, content_of, start_command, warm
from bench.by_hand.cases import CASES, WARM_UP, Place
from bench.by_hand.data import FILE_ROWS, FORMS, make_files, order_message
from bench.processes import Used

from streamjob.job.load import load_job

JDBC = {"url": "jdbc:postgresql://db/shop", "user": "reader", "driver": "org.postgresql.Driver"}


def test_the_first_batches_and_what_follows_the_last_full_one_do_not_count() -> None:
    case = CASES["json"]
    ends = [100.0 + 2 * number for number in range(case.batches + 2)]
    samples = tuple((90.0 + second, 3.0 * second) for second in range(60))
    used = Used(wall=60, cpu=180, load_before=0.5, samples=samples)

    run = warm("json", "streamjob", 0, case, 5, used, [Batch(2000, end) for end in ends])

    assert run.records == (case.batches - WARM_UP) * case.batch
    assert run.wall == pytest.approx(2 * (case.batches - WARM_UP))
    assert run.cpu == pytest.approx(3 * run.wall)
    assert run.whole_cpu == 180


@pytest.mark.parametrize("case", CASES)
def test_each_side_is_a_valid_job_or_a_query_of_the_other_process(case: str, tmp_path: Path) -> None:
    place = Place(kafka="broker:9092", topic="orders", files=str(tmp_path), jdbc=JDBC, driver="driver.jar", dead="dead")
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
    made = FORMS["bad"]()

    def is_json(value: bytes) -> bool:
        try:
            json.loads(value)
        except ValueError:
            return False
        return True

    assert sum(not is_json(made(number)) for number in range(1000)) == 10


def test_the_forms_hold_the_same_order() -> None:
    read = json.loads(FORMS["json"]()(12))
    message = order_message().FromString(FORMS["protobuf"]()(12))

    assert {name: getattr(message, name) for name in ("id", "customer", "product", "amount", "note")} == {
        name: read[name] for name in ("id", "customer", "product", "amount", "note")
    }


def test_rows_that_a_side_leaves_open_are_not_compared(tmp_path: Path) -> None:
    make_files(tmp_path, FILE_ROWS)

    content = content_of(tmp_path / "orders", 10)

    assert (content.rows, content.sums[0]) == (10, ("id", 4500))
    assert content != content_of(tmp_path / "orders", 11)
    assert isinstance(content, Content)
