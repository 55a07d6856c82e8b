"""Python functions of a job: registered for SQL, and their mistakes told apart."""
