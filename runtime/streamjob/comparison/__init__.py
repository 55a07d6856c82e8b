"""Compares a job with a snapshot: the parts that can be restored, and the reasons for refusals."""
