"""Reports in the status: conditions, reasons, traces."""
