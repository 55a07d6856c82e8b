"""The exactly-once Iceberg sink: writes data files with each batch, and adds them to the table in one commit."""
