"""JSON and CSV as every writer of this product forms them, so that each reader finds the value that was written.

Spark's defaults cut timestamps to milliseconds. In CSV they also put a backslash before quotes and drop spaces.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamjob.job.connectors.options import option

# Five letters: an offset has seconds where local mean time still counted.
_TIMES = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_NOTHING_TRIMMED = {"ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}


def writer_options(form: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return the options for one of Spark's writers or functions of JSON or CSV; those of other formats as they are.

    Args:
        form: Spark's name of the format.
        given: the options of the job, which win.
    """
    ours: dict[str, str] = {}
    if form == "json":
        ours = _TIMES
    if form == "csv":
        # A quote is doubled, as RFC 4180 says.
        ours = {**_TIMES, **_NOTHING_TRIMMED, "escape": option(given, "quote") or '"'}
    return {**{name: value for name, value in ours.items() if option(given, name) is None}, **given}
