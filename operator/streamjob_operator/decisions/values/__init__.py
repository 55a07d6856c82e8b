"""What decisions are made from, and what they are."""
