"""Tests of the model: values and state machines without I/O."""
