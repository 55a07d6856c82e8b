"""The checkpoint coordinator: requests, the schedule, the checkpoint under way, and their statistics."""
