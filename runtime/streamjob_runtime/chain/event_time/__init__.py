"""Watermarks of a chain's inputs, and joins with the versions valid at an event time."""
