"""Invariants of every world and every plan, checked without the planner's help.

Lives here: the invariants. The engine commits no plan that breaks one. Nothing of how plans are made is imported, but
for terms that bookings are defined by.
"""
