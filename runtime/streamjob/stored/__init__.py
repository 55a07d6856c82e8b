"""Stored snapshots without a running job: finding, reading, verifying and deleting them."""
