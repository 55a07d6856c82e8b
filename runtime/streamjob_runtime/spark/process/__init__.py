"""The process of Spark's Java: found, started fast, and its failures and its death explained."""
