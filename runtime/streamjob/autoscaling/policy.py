"""The limits and goals that a user sets for the automatic scaling of a job."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from streamjob.durations import LONGEST, Seconds
from streamjob.schedules import BadSchedule, check_cron, next_time

_MOST = 32_768
_FIELD = r"(\*|[0-9A-Za-z]{1,3}(-[0-9A-Za-z]{1,3})?)(/[0-9]{1,2})?"
CRON = rf"^{_FIELD}(,{_FIELD})*( +{_FIELD}(,{_FIELD})*){{4}}$"


class Means(StrEnum):
    """A way to change the number of task slots."""

    IN_PLACE = "InPlace"
    EXECUTORS = "Executors"
    RESTART = "Restart"


def _cron(text: str) -> str:
    try:
        check_cron(text)
    except BadSchedule as error:
        raise PydanticCustomError("not_a_time", "{said}", {"said": str(error)}) from None
    return text


class _Fields(BaseModel):
    model_config = ConfigDict(
        frozen=True, alias_generator=to_camel, populate_by_name=True, serialize_by_alias=True, extra="forbid"
    )


class Period(_Fields):
    """A time without scaling that recurs."""

    start: Annotated[str, Field(max_length=128, pattern=CRON), AfterValidator(_cron)] = Field(
        description="When it begins: cron's five fields, in UTC, like `0 18 * * 5`."
    )
    duration: Annotated[Seconds, Field(gt=0, le=LONGEST)] = Field(description="How long it lasts.")

    def contains(self, now: float) -> bool:
        """Return whether a time, in seconds since 1970, is in the period."""
        return next_time(self.start, now - self.duration) <= now


class Policy(_Fields):
    """Limits and goals of automatic scaling."""

    min: int = Field(default=1, ge=1, le=_MOST, strict=True, description="Fewest task slots.")
    max: int = Field(default=8, ge=1, le=_MOST, strict=True, description="Most task slots.")
    target_utilization: float = Field(
        default=0.75, ge=0.1, le=0.95, description="Share of the capacity that the load uses after a change."
    )
    max_lag: Annotated[Seconds, Field(ge=1, le=LONGEST)] = Field(
        default=60.0,
        description="Longest acceptable lag: unread records divided by the records that arrive in a second.",
    )
    max_batch_duration: Annotated[Seconds, Field(gt=0, le=LONGEST)] | None = Field(
        default=None, description="Longest acceptable batch. Default: a quarter of `maxLag`."
    )
    catch_up: Annotated[Seconds, Field(ge=1, le=LONGEST)] = Field(
        default=300.0, description="Time in which a change reduces the lag to nothing."
    )
    scale_down_delay: Annotated[Seconds, Field(ge=60, le=LONGEST)] = Field(
        default=1800.0,
        description="Time for which the load must fit into fewer slots before a restart removes them. A change in place"
        " waits for a sixth of it.",
    )
    means: tuple[Means, ...] = Field(
        default=(Means.IN_PLACE, Means.EXECUTORS, Means.RESTART), min_length=1, description="Permitted ways to scale."
    )
    excluded_periods: tuple[Period, ...] = Field(default=(), description="Times without any scaling.")
    max_moves_per_day: int = Field(
        default=24,
        ge=1,
        strict=True,
        description="Most changes by restart in 24 hours. Half of them are reserved for more slots. Only a job"
        " with a lag above half of `maxLag` may have more.",
    )
    quota_cpu: float | None = Field(default=None, ge=1, description="Most processors that the job may use.")

    @model_validator(mode="after")
    def _bounds_fit(self) -> Self:
        if self.min > self.max:
            raise PydanticCustomError(
                "min_above_max", "min {min} is above max {max}; swap them", {"min": self.min, "max": self.max}
            )
        return self

    @property
    def batch_limit(self) -> float:
        """Seconds of the longest acceptable batch."""
        return self.max_batch_duration if self.max_batch_duration is not None else self.max_lag / 4
