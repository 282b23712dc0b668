"""Preemption: which workers less important jobs lose so that a more important one fits.

Lives here: the search, from the mildest taking to the harshest, and giving back what turns out not to be needed. It
changes the draft; whether a job may take at all is decided in `start`.
"""
