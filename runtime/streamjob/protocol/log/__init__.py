"""A job's log: who owns it, what completes, what is committed, kept, repaired and restored from."""
