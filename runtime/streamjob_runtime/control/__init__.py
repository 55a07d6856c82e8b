"""Access to the running job: the control API and the terminal view."""
