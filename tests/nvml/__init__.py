"""Machines with GPUs that are not there: a library in the place of NVIDIA's, which answers as a test says."""
