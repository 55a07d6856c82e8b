"""The sink kit's interruptions: intercepted functions work as before, and are restored afterwards."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

from streamjob.testing.interception import Crash, Interception


class Base:
    def method(self, number: int) -> tuple[object, int]:
        return self, number

    @staticmethod
    def static(number: int) -> int:
        return number

    @classmethod
    def of_class(cls, number: int) -> tuple[type, int]:
        return cls, number


class Inheriting(Base):
    pass


FUNCTIONS = [(Inheriting, "method"), (Inheriting, "static"), (Inheriting, "of_class")]


def test_methods_of_each_kind_are_called_as_before() -> None:
    one = Inheriting()
    with Interception(FUNCTIONS, 100, lambda: None):
        assert (one.method(1), one.static(2), one.of_class(3)) == ((one, 1), 2, (Inheriting, 3))
        assert (Inheriting.static(2), Inheriting.of_class(3)) == (2, (Inheriting, 3))


def test_what_is_inherited_is_so_again_behind_it() -> None:
    with Interception(FUNCTIONS, 0, lambda: None):
        assert {name for _, name in FUNCTIONS} <= vars(Inheriting).keys()

    assert not {name for _, name in FUNCTIONS} & vars(Inheriting).keys()
    assert isinstance(inspect.getattr_static(Inheriting, "static"), staticmethod)


@pytest.mark.parametrize("call", [lambda: Inheriting().method(1), lambda: Inheriting.static(1)])
def test_the_dead_do_nothing_more(call: Callable[[], object]) -> None:
    def crash() -> None:
        raise Crash

    with Interception(FUNCTIONS, 1, crash) as interception:
        Inheriting.static(0)
        for _ in range(2):
            with pytest.raises(Crash):
                call()
        assert interception.fired
