"""The states of a StreamJob's life, and the ways between them."""
