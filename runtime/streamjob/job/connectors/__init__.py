"""The options and the abilities of each connector."""
