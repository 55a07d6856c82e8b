"""What the runtime asks of Kafka itself, beside what Spark's connector reads and writes."""
