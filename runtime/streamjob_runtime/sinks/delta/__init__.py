"""The Delta sink: writes data files with each batch, and adds them to the table in one commit with its record."""
