"""Owners that die at some call to their store."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st
from tests.faulty_store import Fault


@dataclass
class Death:
    """From some call on nothing reaches the store: how an owner that dies looks from there.

    Args:
        after: calls that still reach it.
        verbs: which calls are counted; none for all.
        last: how the first call that fails does so.
    """

    after: int
    verbs: frozenset[str] = frozenset()
    last: Fault = Fault.BEFORE
    dead: bool = field(default=False, init=False)

    def __call__(self, verb: str, key: str) -> Fault | None:
        if self.dead:
            return Fault.BEFORE
        if self.verbs and verb not in self.verbs:
            return None
        self.after -= 1
        self.dead = self.after < 0
        return self.last if self.dead else None


def healthy(verb: str, key: str) -> Fault | None:
    return None


deaths = st.builds(
    Death,
    after=st.integers(0, 25),
    verbs=st.sampled_from([frozenset[str](), frozenset({"delete"}), frozenset({"put_if_absent"}), frozenset({"put"})]),
    last=st.sampled_from(Fault),
)
