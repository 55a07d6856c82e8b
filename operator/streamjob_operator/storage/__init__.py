"""The stores of jobs, reached with the credentials that each StreamJob names."""
