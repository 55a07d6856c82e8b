"""The snapshot protocol as pure code: values in, decisions out; the clock, randomness and the store are parameters."""
