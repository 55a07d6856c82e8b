"""The exactly-once Kafka sink: rows wait beside the snapshots, and reach their topics in one transaction."""
