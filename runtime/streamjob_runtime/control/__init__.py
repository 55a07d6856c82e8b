"""The running job as its users see it: the control API and the terminal view."""
