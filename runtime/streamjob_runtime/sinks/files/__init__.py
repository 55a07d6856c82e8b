"""The exactly-once file sink for directories, and what it shares with the one for buckets."""
