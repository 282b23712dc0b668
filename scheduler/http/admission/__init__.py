"""Checks of jobs against the cluster that they would run on, before they are stored."""
