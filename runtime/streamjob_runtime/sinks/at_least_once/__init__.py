"""Sinks to which Spark writes a batch: at least once, for every target that it knows."""
