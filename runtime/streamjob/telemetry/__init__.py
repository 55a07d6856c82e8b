"""Traces, metrics and logs for other systems: their formats, and how they leave a process."""
