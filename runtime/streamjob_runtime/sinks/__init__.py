"""Sinks: the exactly-once file sink and others, and at-least-once sinks for all targets that Spark can write to."""
