"""Statistics of data files hold for every value, whatever a reader makes of JSON."""

from __future__ import annotations

import json
import math
from decimal import Decimal

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from streamjob_runtime.sinks.delta.statistics import statistics_of

TEXTS = st.builds(str.__add__, st.sampled_from(["", "a" * 31, "\U0010ffff" * 32]), st.text())
"""Also texts that are longer than a bound may be."""


@settings(deadline=None)
@given(st.lists(TEXTS, min_size=1))
def test_the_bounds_of_texts_hold_for_each_in_the_order_of_their_bytes(texts: list[str]) -> None:
    stats = json.loads(statistics_of(pa.table({"t": texts})))
    least, greatest = stats.get("minValues", {}).get("t", ""), stats.get("maxValues", {}).get("t")

    assert all(least.encode() <= text.encode() for text in texts)
    assert greatest is None or all(text.encode() <= greatest.encode() for text in texts)
    assert len(least) <= 32
    assert ("minValues" in stats) == ("maxValues" in stats)


@settings(deadline=None)
@given(st.lists(st.floats() | st.none()))
def test_the_bounds_of_numbers_with_nan_or_infinity_are_left_out(numbers: list[float | None]) -> None:
    stats = json.loads(statistics_of(pa.table({"n": pa.array(numbers, pa.float64())})), parse_constant=None)
    known = [number for number in numbers if number is not None]

    assert stats["nullCount"]["n"] == len(numbers) - len(known)
    for end, kept in (("minValues", min), ("maxValues", max)):
        bound = stats.get(end, {}).get("n")
        if not known or any(math.isnan(number) for number in known) or any(map(math.isinf, known)):
            assert bound is None
        else:
            assert bound == kept(known)
            assert bound != 0 or math.copysign(1, bound) == (-1 if end == "minValues" else 1)


def test_decimals_keep_all_digits_and_texts_are_not_escaped() -> None:
    digits = Decimal("-" + "9" * 28 + ".0123456789")
    stats = statistics_of(pa.table({"d": pa.array([digits], pa.decimal128(38, 10)), "t": ["\U0001f600"]}))

    assert f'"d":{digits}' in stats
    assert "\U0001f600" in stats


def test_a_column_without_bounds_leaves_no_bounds_to_the_others() -> None:
    for without in ([True], [None], [float("nan")], [b"raw"]):
        stats = json.loads(statistics_of(pa.table({"id": [1], "v": without})))
        assert stats.keys() == {"numRecords", "nullCount"}
    assert json.loads(statistics_of(pa.table({"id": [1], "l": [[1]]})))["minValues"] == {"id": 1}
    assert "minValues" not in json.loads(statistics_of(pa.table({f"c{n}": [n] for n in range(40)})))
