"""The graph of a job, and its chains."""
