"""The content of a job file as values: sources, operators, sinks, options, references, problems."""
