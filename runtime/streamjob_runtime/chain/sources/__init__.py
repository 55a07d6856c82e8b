"""The rows of a source: how much a batch reads, how records are decoded, what becomes of bad ones."""
