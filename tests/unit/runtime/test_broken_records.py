"""Records that cannot be decoded are found in Spark's errors, and named with the command that skips them."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamjob.errors import ExitCode
from streamjob.job.loading.load import LoadedJob
from streamjob.job.model.reading import read_spec
from streamjob_runtime.chain.sources.broken_records import Undecoded, skipped, undecoded_in
from streamjob_runtime.job.bad_input_errors import record_not_decoded

RECORD = Undecoded(
    source="orders", part="value", topic="or.ders", partition=3, offset=17, error="the field id is x, which is no INT"
)
SAID = (
    "SparkException: Job aborted due to stage failure: [USER_RAISED_EXCEPTION] streamjob:not-decoded:"
    '{"source":"orders","part":"value","topic":"or.ders","partition":3,"offset":17,'
    '"error":"the field id is x, which is no INT"}:streamjob SQLSTATE: P0001'
)


def loaded(**fields: object) -> LoadedJob:
    source = {"name": "orders", "format": "kafka", "value": {"format": "json", "schema": "id INT"}, **fields}
    spec = read_spec({"name": "job", "sources": [source]}).spec
    assert spec is not None
    return LoadedJob(spec, Path("/jobs"), "my job.yaml")


@pytest.mark.parametrize(("text", "found"), [(SAID, RECORD), ("streamjob:not-decoded: x", None), ("another", None)])
def test_a_record_is_found_in_the_text_of_an_error(text: str, found: Undecoded | None) -> None:
    assert undecoded_in(text) == found


def test_the_error_names_the_record_the_form_and_the_command_that_goes_on() -> None:
    error = record_not_decoded(RECORD, loaded())

    assert error.what == (
        "Source 'orders': the value of partition 3 of topic 'or.ders' at offset 17 is not json with the fields id INT: "
        "the field id is x, which is no INT"
    )
    assert "streamjob run 'my job.yaml' --set sources.orders.skip=or.ders/3/17" in error.fix
    assert error.exit_code is ExitCode.INVALID_INPUT


def test_the_command_also_skips_the_records_that_are_skipped_already() -> None:
    error = record_not_decoded(RECORD, loaded(skip="or.ders/3/4"))

    assert "--set 'sources.orders.skip=or.ders/3/4, or.ders/3/17'" in error.fix


@pytest.mark.parametrize(
    ("text", "records"),
    [(None, []), ("a/0/1", [("a", 0, 1)]), (" a.b/0/1 , c-d/10/2222222222 ", [("a.b", 0, 1), ("c-d", 10, 2222222222)])],
)
def test_the_records_to_skip_are_read(text: str | None, records: list[tuple[str, int, int]]) -> None:
    assert skipped(text) == records
