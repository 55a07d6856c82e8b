"""Executors: what they cost against one process, and what a checkpoint, a restore and a loss take."""
