"""The input and the output of decisions: situation, memory, actions."""
