"""Spark's checkpoint directory: finds the files of a batch, holds and moves them, and forces batches."""
