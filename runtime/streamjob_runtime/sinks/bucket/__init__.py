"""The exactly-once file sink for buckets."""
