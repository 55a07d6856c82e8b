"""Builds what a release consists of: packages, chart, images, bills of materials and checksums (`make dist`)."""
