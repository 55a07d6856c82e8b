"""The job's metrics, and the figures that they are computed from."""
