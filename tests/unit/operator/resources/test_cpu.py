"""Processors are written as Kubernetes writes them, and a task slot has some."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from streamjob_operator.resources.base import SomeCpu

CPU: TypeAdapter[str] = TypeAdapter(SomeCpu)


@pytest.mark.parametrize("cpu", ["1", "500m", "1m", "0.5", "0.05", "0.001", "0.100", "2.250", "10"])
def test_processors_for_a_slot_are_read(cpu: str) -> None:
    assert CPU.validate_python(cpu) == cpu


@pytest.mark.parametrize("cpu", ["0", "0.0", "0.000", "0m", "00", "-1", "0.0001", "1e3", ""])
def test_no_processors_for_a_slot_are_refused(cpu: str) -> None:
    with pytest.raises(ValidationError):
        CPU.validate_python(cpu)
