"""Kafka beyond the records that Spark's connector reads and writes: metadata, offsets, consumer groups."""
