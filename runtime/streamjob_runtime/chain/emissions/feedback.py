"""The columns of feedback channels: declared by the reader, checked against the written rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from streamjob.errors import InvalidInput
from streamjob.job.planning.plan import ChannelPlan

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class OtherColumnsFedBack(InvalidInput):
    """An operator's feedback does not have the columns that the feedback input declares."""


def declared(channel: ChannelPlan) -> StructType:
    """Return the columns of a feedback channel, all of them nullable."""
    from pyspark.sql.types import StructType

    return cast("StructType", StructType.fromDDL(channel.schema_ddl or ""))


def check_declared(channel: ChannelPlan, schema: StructType) -> None:
    """Check that rows for a feedback channel have the columns that its reader declares, in order.

    Raises:
        OtherColumnsFedBack: they do not.
    """
    if _columns(declared(channel)) != _columns(schema):
        written = ", ".join(f"{name} {kind.upper()}" for name, kind in _columns(schema))
        raise OtherColumnsFedBack(
            f"The feedback input {channel.name!r} of chain {channel.target!r} is declared as {channel.schema_ddl!r}, "
            f"but {channel.name!r} has the columns {written}",
            f"declare its schema as {written!r}, or let {channel.name!r} return the declared columns",
        )


def _columns(schema: StructType) -> list[tuple[str, str]]:
    return [(each.name, each.dataType.simpleString()) for each in schema.fields]
