"""In which form a stateful operator keeps its state, as far as Spark's own files do not tell."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, JsonValue
from pydantic.alias_generators import to_camel


class _Form(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, extra="ignore")


class WindowForm(_Form):
    """Windows of time in microseconds: how long they are, how far apart, and where they begin; sessions: the gap."""

    size_us: int
    slide_us: int
    start_us: int


class KeyForm(_Form):
    """A column of the keys of an operator.

    `window` is there for windows of time. `samples` are what the column is for some values of the one column that
    decides it, whose type is `of`; there are none where several columns decide it, or another chain makes it.
    """

    name: str
    type: str
    of: str | None = None
    samples: tuple[str, ...] = ()
    window: WindowForm | None = None


class AggregateForm(_Form):
    """An aggregate function, and what its buffer holds.

    `function` is the name of Spark's class, `sql` how it is called. `opaque`: Spark describes its buffer as bytes or
    numbers that only the function can read, so `inputs`, the types of what it collects, and `parameters` tell it.
    """

    function: str
    sql: str
    opaque: bool
    buffer: tuple[str, ...]
    inputs: tuple[str, ...]
    parameters: dict[str, JsonValue]


class StateForm(_Form):
    """A stateful operator: its kind, its keys, and by kind what else its state depends on."""

    kind: str
    keys: tuple[KeyForm, ...]
    aggregates: tuple[AggregateForm, ...]
    parameters: dict[str, JsonValue]
