"""Asks sinks of a job that does not run: could they be opened, is what they keep whole, what is left staged."""
