"""A chain in one epoch: one streaming query, its inputs, its channels and its outputs."""
