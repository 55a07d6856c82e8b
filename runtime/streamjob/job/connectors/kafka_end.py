"""Parses the end of a bounded Kafka source. The offsets themselves are fixed at the job's first start."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from streamjob.errors import InvalidInput
from streamjob.job.connectors.connector import OptionProblem
from streamjob.job.connectors.options import environment_names, option

ENDING_OFFSETS = "endingOffsets"
_OF_TIMES = ("endingOffsetsByTimestamp", "endingTimestamp")
_LATEST = -1


class NotEndingOffsets(InvalidInput):
    """The option `endingOffsets` has an invalid value."""


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"partition {self.partition} of topic {self.topic!r}"


def ending_offsets(text: str | None) -> Mapping[TopicPartition, int | None] | None:
    """Return the offset after the last record of each partition, None for the latest; None alone if all are the latest.

    Args:
        text: the option in the form of Spark's batch source: `latest`, or JSON with offsets by topic and partition,
            where -1 is the latest.

    Raises:
        NotEndingOffsets: it is neither.
    """
    if text is None or text.strip().lower() == "latest":
        return None
    try:
        topics = json.loads(text)
        return {
            TopicPartition(topic, int(number)): None if _offset(offset) == _LATEST else offset
            for topic, partitions in topics.items()
            for number, offset in partitions.items()
        }
    except (ValueError, AttributeError):
        raise NotEndingOffsets(
            f"has {ENDING_OFFSETS} {text!r}, which is not a valid end",
            'give latest, or an offset for each partition, such as {"orders": {"0": 1200, "1": -1}}, where -1 is the '
            "latest",
        ) from None


def _offset(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < _LATEST:
        raise ValueError
    return value


def problems(options: Mapping[str, str], *, bounded: bool) -> Iterator[OptionProblem]:
    """Yield problems with the end of a Kafka source, with fixes."""
    if not bounded:
        if given := [name for name in (ENDING_OFFSETS, *_OF_TIMES) if option(options, name) is not None]:
            yield OptionProblem(f"has {given[0]}, and is not bounded", "give bounded: true, or leave the option out")
        return
    for name in _OF_TIMES:
        if option(options, name) is not None:
            yield OptionProblem(
                f"has {name}: its end can only be given as offsets",
                f"give {ENDING_OFFSETS}, or leave it out for the latest",
            )
    text = option(options, ENDING_OFFSETS)
    if text is not None and not any(environment_names(text)):
        try:
            ending_offsets(text)
        except NotEndingOffsets as error:
            yield OptionProblem(error.what, error.fix, ENDING_OFFSETS)
    if (option(options, "startingOffsets") or "").strip().lower() == "latest":
        yield OptionProblem(
            "is bounded and begins with startingOffsets latest: it would read nothing", "give earliest, or leave it out"
        )
