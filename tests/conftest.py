"""Settings of all tests."""

import os
import time

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says nothing on a busy machine. With CI=true, Hypothesis begins from a profile of its own.
settings.register_profile(
    "untimed",
    settings(),
    deadline=None,
    suppress_health_check=[*settings().suppress_health_check, HealthCheck.too_slow],
)
settings.load_profile("untimed")

END = "STREAMJOB_TESTS_END"
"""The variable with the time, in seconds since 1970, from which on no test begins."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Skip what is left when the time is up: the gate may take no longer, however slow its machine is."""
    if time.time() > float(os.environ.get(END, "inf")):
        pytest.skip("the time of this run is up")
