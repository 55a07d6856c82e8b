"""Profiles: where the processes of a job spend their CPU time."""
