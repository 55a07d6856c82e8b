"""Runs reconciles: watches, the work queue, leader election, and the audit of the watches."""
