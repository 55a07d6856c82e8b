"""Sinks: the exactly-once file sink, and at-least-once ones to whatever Spark can write to."""
