"""Reads state and in-flight data of a stored snapshot as tables, without its job."""

from streamjob_runtime.inspection.tables import read_tables

__all__ = ["read_tables"]
