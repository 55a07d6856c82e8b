"""The watermark of an input: over its partitions, and while some of them are idle."""
