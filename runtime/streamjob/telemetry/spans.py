"""Spans of a trace as values, and the identities by which spans of several processes find each other.

Identities are hashes of what a span is about. So a process can name a span before it ends, and again after a restart,
and refer to spans of another process without asking it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

Attribute = str | int | float | bool

TRACEPARENT = "TRACEPARENT"
"""The environment variable with the parent of a process's first span, as OpenTelemetry names it."""
TRACEPARENT_HEADER = "traceparent"

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_VERSION_00 = "00-"
_SAMPLED = 1


@dataclass(frozen=True, slots=True)
class SpanContext:
    """The identity of a span.

    Args:
        trace_id: the trace, 128 bits and not 0.
        span_id: the span, 64 bits and not 0.
    """

    trace_id: int
    span_id: int

    @classmethod
    def root(cls, *about: str | int) -> Self:
        """Return the identity of the first span of a trace about something."""
        return cls(_hash(16, "trace", about), _hash(8, "span", about))

    def child(self, *about: str | int) -> Self:
        """Return the identity of a span below this one about something."""
        return type(self)(self.trace_id, _hash(8, self.traceparent, about))

    @classmethod
    def parse(cls, traceparent: str | None) -> Self | None:
        """Return the span that a W3C `traceparent` names; None if it names none, or one that is not sampled."""
        found = _TRACEPARENT.fullmatch((traceparent or "").strip())
        if found is None or found[0].startswith("ff") or (found[4] and found[0].startswith(_VERSION_00)):
            return None
        trace_id, span_id = int(found[1], 16), int(found[2], 16)
        return cls(trace_id, span_id) if trace_id and span_id and int(found[3], 16) & _SAMPLED else None

    @property
    def traceparent(self) -> str:
        """The span as a W3C `traceparent`."""
        return f"{_VERSION_00}{self.trace_id:032x}-{self.span_id:016x}-{_SAMPLED:02x}"

    @property
    def fields(self) -> dict[str, str | int]:
        """The span as fields of a log record."""
        return {"trace_id": f"{self.trace_id:032x}", "span_id": f"{self.span_id:016x}"}


def _hash(size: int, kind: str, about: tuple[str | int, ...]) -> int:
    # The length of each part is in the hash, so that ("a", "b") and ("ab",) differ.
    text = "".join(f"{len(str(part))}:{part}" for part in (kind, *about))
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "backslashreplace")).digest()[:size], "big") or 1


@dataclass(frozen=True, slots=True)
class Span:
    """A finished span.

    Args:
        context: its identity.
        parent: the identity of its parent; None for the first span of a trace.
        start: its begin, in seconds since 1970.
        end: its end, in seconds since 1970.
        error: the reason of its failure; None if it succeeded.
    """

    name: str
    context: SpanContext
    parent: SpanContext | None
    start: float
    end: float
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    error: str | None = None
