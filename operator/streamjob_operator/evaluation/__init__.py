"""Evaluates specs in processes of their own, by a deadline."""
