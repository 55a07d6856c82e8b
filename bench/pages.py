"""Writes all pages again from what is stored: `python -m bench.pages`, for instance after a change of their text."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from bench.results import Page

MODULES = (
    "bench.__main__",
    "bench.autoscaler.__main__",
    "bench.backpressure",
    "bench.batch_latency",
    "bench.buckets",
    "bench.by_hand.results",
    "bench.channels",
    "bench.controller_report",
    "bench.executors.report",
    "bench.incremental",
    "bench.kafka",
    "bench.load",
    "bench.migrations",
    "bench.nexmark.results",
    "bench.page",
    "bench.postgresql",
)
"""Each has a `PAGE`."""


def pages() -> Mapping[str, Page]:
    """Return all pages by their names."""
    found: list[Page] = [import_module(module).PAGE for module in MODULES]
    return {page.name: page for page in found}


if __name__ == "__main__":
    for each in pages().values():
        each.write()
