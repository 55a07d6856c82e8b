"""What the status says: conditions, reasons, traces."""
