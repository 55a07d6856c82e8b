"""The model of joins with tables that are asked for keys, and with versions."""

from __future__ import annotations

import re
from typing import Literal, Self

from pydantic import Field, model_validator

from streamjob.job.model.spec_fields import Delay, NodeName, Spec

_COLUMN = r"(?:[^\W\d]\w*|`[^`]+`)"
_ON = re.compile(rf"\s*({_COLUMN})\s*(?:=\s*({_COLUMN})\s*)?")
_SELECTED = re.compile(rf"\s*({_COLUMN})\s*(?:\s[aA][sS]\s+({_COLUMN})\s*)?")


class JoinSpec(Spec):
    """The columns of a join, whose rows get columns of the other side."""

    on: tuple[str, ...] = Field(
        min_length=1,
        description="The columns of the key: `column`, or `column = other` if the other side calls it `other`.",
    )
    select: tuple[str, ...] = Field(
        min_length=1, description="The columns of the other side that rows get: `column`, or `column AS name`."
    )
    join: Literal["left", "inner"] = Field(
        default="left", description="`left` keeps rows without a match, with nulls; `inner` drops them."
    )

    @model_validator(mode="after")
    def _columns_are_names(self) -> Self:
        for field, pattern, form in (
            (self.on, _ON, "column = column of the other side"),
            (self.select, _SELECTED, "column AS name"),
        ):
            for each in field:
                if pattern.fullmatch(each) is None:
                    raise ValueError(f"{each!r} is neither a column nor `{form}`")
        return self

    def key_columns(self) -> tuple[tuple[str, str], ...]:
        """Return the columns of the key: of the input, and of the other side."""
        return _pairs(self.on, _ON)

    def added_columns(self) -> tuple[tuple[str, str], ...]:
        """Return the columns that rows get: of the other side, and their names in the rows."""
        return _pairs(self.select, _SELECTED)


def _pairs(texts: tuple[str, ...], pattern: re.Pattern[str]) -> tuple[tuple[str, str], ...]:
    found = [match.groups() for each in texts if (match := pattern.fullmatch(each)) is not None]
    return tuple((one.strip("`"), (other or one).strip("`")) for one, other in found)


class LookupSpec(JoinSpec):
    """A join of the input with a table that is asked for the keys of its rows."""

    table: NodeName = Field(description="The table; it has `lookup`, too.")


class TemporalJoinSpec(JoinSpec):
    """A join of the rows of the first input with the versions of the second that were valid at their event times."""

    valid_for: Delay | None = Field(
        default=None,
        gt=0,
        description="For how long a version is valid; then it is dropped. Default: until the next one of its key.",
    )


class LookupPolicy(Spec):
    """How a table of a database is asked for the keys of rows."""

    cache_rows: int = Field(
        default=10_000, ge=0, strict=True, description="Keys whose rows each process keeps; 0 asks for each again."
    )
    ttl: Delay = Field(default=60.0, gt=0, description="How old the kept rows may get.")
    timeout: Delay = Field(default=30.0, ge=1, description="The longest time that a query may take.")
    retries: int = Field(
        default=3, ge=0, strict=True, description="How often a failed query is tried again, before the job restarts."
    )
