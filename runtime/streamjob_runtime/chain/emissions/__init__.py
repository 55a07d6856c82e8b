"""Stages each batch of a chain in its sinks, and emits it into channels under one lock."""
