"""Checkpointed streaming jobs on Apache Spark: what a job's author imports, and what runtime and controller share."""
