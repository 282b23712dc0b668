"""Tests of the worker-side library, with real torch."""
