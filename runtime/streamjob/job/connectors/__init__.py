"""The options of each connector, and what it can do."""
