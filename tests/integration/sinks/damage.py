"""Damage to stored files, as a bad disk causes it."""

from __future__ import annotations

from pathlib import Path


def flip_a_bit(file: Path) -> None:
    """Change one bit in the middle of a file, which keeps its size."""
    file.write_bytes(flipped(file.read_bytes()))


def flipped(content: bytes) -> bytes:
    """Return bytes with one bit in their middle changed."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
