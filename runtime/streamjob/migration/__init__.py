"""Plans how the state of a changed query follows from the state that a snapshot has. Nothing here needs Spark."""
