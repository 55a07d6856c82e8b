"""A running job: epochs, one after the other, and the chains of each."""
