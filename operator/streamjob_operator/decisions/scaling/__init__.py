"""Automatic scaling of slots and of the driver's memory."""
