"""Reconciles StreamJobs and StreamSnapshots: observe, decide, store the status, act."""
