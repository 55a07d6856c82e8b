"""The form in which a stateful operator keeps its state, as far as Spark's own files do not record it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, JsonValue
from pydantic.alias_generators import to_camel


class _Form(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, extra="ignore")


class WindowForm(_Form):
    """Time windows in microseconds: length, slide and offset; for sessions, the gap."""

    size_us: int
    slide_us: int
    start_us: int


class KeyForm(_Form):
    """A key column of an operator.

    `window` is set for time windows. `samples` are values of the key for some values of the single column that
    determines it, whose type is `of`; `plain` tells whether the key is that column, perhaps cast. There are none if
    several columns or another chain determine the key.
    """

    name: str
    type: str
    of: str | None = None
    plain: bool = False
    samples: tuple[str, ...] = ()
    window: WindowForm | None = None


class AggregateForm(_Form):
    """An aggregate function and the type of its buffer.

    `function` is the name of Spark's class, and `sql` the call. `opaque` means that Spark describes the buffer only as
    bytes or numbers that the function alone can read; then `inputs`, the types of its arguments, and `parameters`
    identify it. `of` has the columns and expressions that it is computed from; older versions did not write it.
    """

    function: str
    sql: str
    opaque: bool
    buffer: tuple[str, ...]
    inputs: tuple[str, ...]
    parameters: dict[str, JsonValue]
    of: tuple[str, ...] | None = None


class StateForm(_Form):
    """A stateful operator: its kind, its keys, and whatever its state depends on for that kind."""

    kind: str
    keys: tuple[KeyForm, ...]
    aggregates: tuple[AggregateForm, ...]
    parameters: dict[str, JsonValue]
