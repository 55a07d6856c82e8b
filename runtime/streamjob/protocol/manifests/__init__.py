"""Reading and writing the manifest of a snapshot, in each version of its format."""
