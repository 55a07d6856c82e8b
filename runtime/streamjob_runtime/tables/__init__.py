"""Tables that a job joins with its streams."""
