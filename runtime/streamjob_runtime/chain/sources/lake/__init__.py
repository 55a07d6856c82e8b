"""Lake tables as sources: which data files each snapshot of a table appended, read from its metadata alone."""
