"""Runs batches of a query again exactly as they ran before; see `docs/decisions/pinned-batches.md`."""
