"""Any SQL file is either a job or refused with problems; no other error is ever raised."""

from __future__ import annotations

import textwrap
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from streamjob.job.checks import Subject
from streamjob.job.checks.validate import examine
from streamjob.job.model.origins import Origins
from streamjob.job.model.reading import read_spec
from streamjob.job.sql_job import read_sql

_WORDS = textwrap.dedent(
    r"""
    CREATE SOURCE VIEW SINK INSERT INTO SET WITH AS SELECT FROM WATERMARK FOR INTERVAL HOUR PARTITIONED BY JOIN ON OVER
    ( ) , ; = - 'a' 'format' 'uid' 'inputs' 'feedback.a' 'python' `a` a b c 1 1.5 1e5 10s true < > . * -- /* */ " ' `
    ${var:x} WINDOW EXPLAIN CALL SHOW COMMENT VALUES { } {{ }} {% %} [ ] @ # $ $$ % ? : :: -> => || é x'ab' r'a\d' \
    """
).split()
_soup = st.lists(st.sampled_from([*_WORDS, "\n", "\0"]), max_size=25).map(" ".join)
_begun = _soup.map(lambda rest: f"CREATE SOURCE a WITH ('format' = 'rate');\nCREATE VIEW b {rest}")


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=40) | _soup | _begun)
def test_any_text_is_a_job_or_has_problems(text: str) -> None:
    read = read_sql(text, Origins())
    reading = read_spec(read.data)
    spec = reading.spec
    found = [*read.problems, *reading.problems]
    if spec is not None:
        unread, complete = reading.unread | read.unread, reading.complete and read.complete
        found += examine(Subject(spec, Path("/"), {}, None, unread, complete))

    lines = text.count("\n") + 1
    assert found
    assert all(1 <= each.place.line <= lines for each in read.problems if each.place is not None)
    assert all(each.place is not None or each.where == "job" for each in read.problems)
