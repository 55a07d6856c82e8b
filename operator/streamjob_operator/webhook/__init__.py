"""The admission webhook: the API server asks whether a StreamJob is valid before it stores it."""
