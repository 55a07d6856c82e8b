"""How a chain ends: at the end of its input, drained, or by the end of its epoch."""
