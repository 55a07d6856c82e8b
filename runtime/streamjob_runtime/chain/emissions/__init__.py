"""What a chain does with each batch: stage it in its sinks, emit it into channels, under one lock."""
