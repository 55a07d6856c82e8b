"""Values, records, names and errors as text, in one form for readers and writers."""
