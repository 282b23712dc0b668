"""The documentation: pages written by hand, and `generate`, which makes the others from the code."""
