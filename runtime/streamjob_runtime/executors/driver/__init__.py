"""Executors from the driver's side: who is there, what they hold, and what they are told."""
