"""Fixtures of the sinks' tests alone."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from tests.integration.sinks.topics import topics

__all__ = ["topics"]

_MISREAD = "An error occurred when parsing the HTTP request"


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Tell a request that the S3 server misread from a fault of ours.

    Under load versitygw 1.8.0 takes, seldom, another path for the one that Arrow asked for, and refuses it.
    """
    try:
        return (yield)
    except Exception as error:
        if "bucket_lake" in pyfuncitem.fixturenames and _MISREAD in f"{error} {error.__context__}":
            pytest.xfail(f"the S3 server misread a request: {error}")
        raise
