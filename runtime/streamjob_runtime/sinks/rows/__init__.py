"""The rows of a batch on their way to a sink: checked, counted, split and staged."""
