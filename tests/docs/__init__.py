"""Tests that the documents are true."""
