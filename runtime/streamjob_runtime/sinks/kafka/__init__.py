"""The exactly-once Kafka sink: rows wait in the snapshot store, and reach their topics in one transaction."""
