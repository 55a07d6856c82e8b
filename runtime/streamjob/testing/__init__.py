"""Kits for tests of jobs, sinks and stores; shipped to users."""
