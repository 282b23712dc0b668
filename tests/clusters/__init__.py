"""Tests of the clusters: real processes, every one of them gone at the end."""
