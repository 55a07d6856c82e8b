"""Access to lake tables: what sinks and sources share."""
