"""Runs jobs on rows that a test gives: the real runtime, with sources that it feeds and sinks that it reads."""
