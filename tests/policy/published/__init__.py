"""Tests of the policies of published schedulers."""
