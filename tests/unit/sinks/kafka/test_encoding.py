"""A sink that encodes rows offers all that the sink behind it offers."""

from __future__ import annotations

from typing import Any, cast

import pytest

from streamjob import sink as interfaces
from streamjob_runtime.sinks.encoding import EncodingSink
from streamjob_runtime.sinks.kafka.sink import KafkaSink

OPTIONAL = [
    interfaces.ChecksSchema,
    interfaces.KnowsPublished,
    interfaces.KnowsTarget,
    interfaces.Previews,
    interfaces.PublishesBatches,
    interfaces.Rescues,
]


@pytest.mark.parametrize("interface", OPTIONAL, ids=lambda each: each.__name__)
def test_a_sink_whose_rows_are_encoded_first_has_the_same_interfaces(interface: type[Any]) -> None:
    inner = KafkaSink("out", cast(Any, None))
    assert isinstance(inner, interface)
    assert isinstance(EncodingSink(cast(Any, None), inner, cast(Any, None), {}), interface)
