"""The exactly-once Iceberg sink: data files are written as batches come, and added to the table by one commit."""
