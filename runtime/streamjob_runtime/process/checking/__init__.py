"""Checks of a job that does not run: the commands that ask Spark and the connected systems about it."""
