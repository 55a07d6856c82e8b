"""One error for all that is wrong."""

from __future__ import annotations

import pytest

from streamjob.errors import refuse
from streamjob.job.connectors.options import UnusableOptions


def test_all_that_is_wrong_is_told_at_once_and_each_fix_once() -> None:
    found = [("has no option 'a'", "leave it out"), ("has no option 'b'", "leave it out"), ("lacks 'c'", "add c")]

    with pytest.raises(UnusableOptions) as raised:
        refuse(UnusableOptions, "sink report:", iter(found))

    assert raised.value.what == "sink report: has no option 'a'; has no option 'b'; lacks 'c'"
    assert raised.value.fix == "leave it out; add c"


def test_nothing_is_refused_if_nothing_is_wrong() -> None:
    refuse(UnusableOptions, "sink report:", iter(()))
