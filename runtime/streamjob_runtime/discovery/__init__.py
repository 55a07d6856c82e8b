"""Finds the files of a source: what a bucket has, what was read, and what is new."""
