"""What the sinks of lake tables share: lives, layouts, changes and repeated commits."""
