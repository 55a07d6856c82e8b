"""What chains emit into channels, how readers follow, and where a checkpoint cuts both."""
