"""Decisions that several states share."""
