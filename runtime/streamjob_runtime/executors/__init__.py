"""Executors in processes of their own: the agent beside each, and the driver's side."""
