"""Checkpoints and savepoints of a running job: held, uploaded, and recorded in the log."""
