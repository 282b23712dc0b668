"""Attacks: what somebody with few rights would try."""
