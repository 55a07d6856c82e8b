"""Uploads the files of a cut: incrementally, in packs, asynchronously."""
