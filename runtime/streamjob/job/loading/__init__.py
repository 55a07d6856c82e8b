"""Loads a job file, in YAML, SQL or Python, with overlays, variables and tests."""
